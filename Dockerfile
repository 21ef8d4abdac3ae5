# cenotaph in a small image that does not run as root. The API listens on loopback inside the container:
# ask it with `docker exec NAME cenotaph status`, or run with the host's network.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc make libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin cenotaph

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/cenotaph --create-home cenotaph
COPY --from=build /src/target/release/cenotaph /usr/local/bin/cenotaph
USER cenotaph
WORKDIR /etc/cenotaph
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s CMD ["cenotaph", "status"]
ENTRYPOINT ["cenotaph"]
CMD ["run", "--config", "/etc/cenotaph/cenotaph.toml"]
