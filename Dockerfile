# docker build --tag mptcplab .
# docker run --rm mptcplab run examples/two-paths-mptcp.yaml
# docs/guide/install.md says how to get results out, and which options the kernel back-end needs.
FROM rust:1-bookworm AS build
# python3-venv builds the wheel; the others compile the loader of eBPF (scripts/prepare).
RUN apt-get update && apt-get install -y --no-install-recommends \
    python3-venv pkg-config autoconf automake autopoint flex bison gawk
WORKDIR /source
COPY . .
RUN python3 -m venv /venv \
    && MATURIN_PEP517_ARGS="--features pyo3/extension-module,ebpf" /venv/bin/pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.13-slim-bookworm
# A program that descriptions name.
RUN apt-get update && apt-get install -y --no-install-recommends iperf3 && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels pip install --no-cache-dir /wheels/*.whl
RUN useradd --create-home --uid 1000 mptcplab
# Any user may be given with --user, also one without a home.
ENV MPLCONFIGDIR=/tmp/matplotlib
USER mptcplab
WORKDIR /home/mptcplab
COPY examples examples
ENTRYPOINT ["mptcplab"]
CMD ["--help"]
