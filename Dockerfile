# Three stages: `build` makes the wheel, `dev` is a place to work in, `run` has the wheel and torch alone.
#
#   docker build --target run --tag disc .
#   docker build --target dev --tag disc-dev .

FROM rust:1.95-slim-bookworm AS dev
ENV DEBIAN_FRONTEND=noninteractive
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# What scripts/setup.sh would install, so that it is a layer of its own.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        ca-certificates g++ gcc-aarch64-linux-gnu git libc6-dev-arm64-cross libdnnl2 libpolly-22-dev liblld-22-dev libzstd-dev \
        llvm-22-dev make python3 python3-pip qemu-user zlib1g-dev \
    && rm -rf /var/lib/apt/lists/* \
    && rustup component add clippy rustfmt
WORKDIR /disc

FROM dev AS build
COPY . .
RUN make wheel

FROM python:3.12-slim-bookworm AS run
COPY --from=build /disc/dist/*.whl /tmp/
# torch for CPUs: the one for CUDA is four gigabytes more.
RUN pip install --no-cache-dir uv==0.13.9 \
    && uv pip install --system --no-cache --torch-backend cpu torch /tmp/disc_compiler-*.whl \
    && rm /tmp/*.whl \
    && useradd --create-home --uid 1000 disc
USER 1000
WORKDIR /models
CMD ["python"]
