# The two commands of the README, and the few that serve them.
.PHONY: quickstart test format lint docs unit demo licences bench

quickstart:
	cargo run --quiet --release -- quickstart

# Everything that decides whether a change may land.
test: format lint docs unit demo licences

format:
	cargo fmt --all --check

lint:
	cargo clippy --workspace --all-targets --locked -- --deny warnings

docs:
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --locked --quiet

unit:
	cargo test --workspace --locked

# The quickstart, run as a user would and asserted by its own checks.
demo:
	cargo run --quiet --locked -- quickstart --output json > target-demo.json
	@grep -q '"resurrections_refused": 1' target-demo.json && echo "quickstart: ok"
	@rm -f target-demo.json

licences:
	@if command -v cargo-deny >/dev/null; then \
	  cargo deny --offline --locked check licenses bans sources; \
	else \
	  echo "LEFT OUT: licences and bans of dependencies (cargo-deny is not installed: cargo install cargo-deny)"; \
	fi

# Ratios against raw programs, side by side in one run.
bench:
	cargo run --quiet --release -p cenotaph-bench
