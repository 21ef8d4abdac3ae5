# The worker in an image. Nobody has built this file yet: where it was written there was no container
# engine. What it relies on is said beside each step; correct it where it is wrong.

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The image has a C compiler, which the allocator needs.
RUN cargo build --release --locked --package cenotaph

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --home-dir /cenotaph cenotaph \
 && mkdir -p /cenotaph/data \
 && chown -R cenotaph:cenotaph /cenotaph
COPY --from=build /src/target/release/cenotaph /usr/local/bin/cenotaph
USER cenotaph
WORKDIR /cenotaph
# Paths in the configuration are relative to it: the ledger and embedded destinations are in
# /cenotaph/data, which belongs to the user that runs here.
ENV CENOTAPH_CONFIG=/cenotaph/cenotaph.toml
VOLUME /cenotaph/data

# The API listens on loopback only, so no port is exposed. Ask inside the container:
#   docker exec NAME cenotaph status
# bash is asked because the image has no HTTP client; the port is that of `api.listen`. (`cenotaph
# status` would not do: it ends with 0 whatever it has to tell.)
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["bash", "-c", \
  "exec 3<>/dev/tcp/127.0.0.1/8083 && printf 'GET /healthz HTTP/1.0\\r\\nHost: 127.0.0.1\\r\\n\\r\\n' >&3 && grep -q '^ok' <&3"]

ENTRYPOINT ["cenotaph"]
# SIGTERM, which the engine sends first, makes it finish what it is at.
CMD ["run"]
