# syntax=docker/dockerfile:1
# Tabane with Node.js and uv, which most MCP servers need. Build it in a checkout: docker build -t tabane .
ARG PYTHON_VERSION=3.13
ARG NODE_VERSION=24

FROM node:${NODE_VERSION}-slim AS node

FROM python:${PYTHON_VERSION}-slim AS build
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md README.ja.md CHANGELOG.md LICENSE NOTICE ./
COPY src ./src
COPY docs ./docs
ARG EXTRAS=""
# The compiler is for the vector kernel, and stays in this stage.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
# The file in the environment tells `tabane update` that an image is replaced as a whole.
RUN python -m venv /opt/tabane \
 && touch /opt/tabane/container-image \
 && /opt/tabane/bin/pip install --no-cache-dir --no-compile ".${EXTRAS:+[$EXTRAS]}" uv \
 && /opt/tabane/bin/pip uninstall --yes pip

FROM python:${PYTHON_VERSION}-slim
LABEL org.opencontainers.image.title="Tabane" \
      org.opencontainers.image.licenses="Apache-2.0" \
      io.modelcontextprotocol.server.name="io.github.tabane-mcp/tabane"
RUN useradd --create-home --uid 1000 tabane \
 && install --directory --owner=tabane --mode=0700 /data /config
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/lib/node_modules /usr/local/lib/node_modules
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
 && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
COPY --from=build /opt/tabane /opt/tabane
ENV PATH=/opt/tabane/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    TABANE_HOME=/data \
    TABANE_CONFIG=/config/tabane.toml \
    TABANE_SERVERS=/config/mcp-servers.json
USER 1000
VOLUME ["/data", "/config"]
# Asks the hub over its socket; the servers behind it are not asked.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s CMD ["tabane", "status", "--json"]
STOPSIGNAL SIGTERM
CMD ["tabane", "start", "--foreground"]
