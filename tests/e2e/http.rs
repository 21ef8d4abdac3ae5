//! The least HTTP client that can also ask what a good client never would.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Longer than any answer that a test waits for.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{error} in the answer {:?}", self.body))
    }

    /// The answer is this error, in the one shape that errors have.
    pub fn is_error(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", self.body);
        let body = self.json();
        assert_eq!(body["error_code"], status, "{body}");
        assert_eq!(body["code"], code, "{body}");
        for field in ["message", "suggestion"] {
            assert!(body[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {body}");
        }
    }
}

/// Sends what is given, byte for byte, and reads to the end.
pub fn send(address: SocketAddr, request: &[u8]) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // A server may answer, and stop reading, before a body that it refuses has been sent.
    let sent = stream.write_all(request);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer)
        && answer.is_empty()
    {
        return Err(error);
    }
    if answer.is_empty() {
        sent?;
    }
    let text = String::from_utf8_lossy(&answer);
    let broken = || io::Error::new(io::ErrorKind::UnexpectedEof, "no whole answer");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status =
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
    Ok(Answer { status, body: body.to_owned() })
}

pub fn get(address: SocketAddr, path: &str) -> io::Result<Answer> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    send(address, request.as_bytes())
}

pub fn post(address: SocketAddr, path: &str, body: &str) -> io::Result<Answer> {
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    send(address, request.as_bytes())
}

/// One part of a path, whatever characters it holds.
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The path of an object's deletion.
pub fn tombstone_path(tenant: &str, collection: &str, object: &str) -> String {
    format!("/v1/tombstones/{}/{}/{}", segment(tenant), segment(collection), segment(object))
}
