# An image with the command and nothing else. A tree is mounted, and /data keeps sessions:
#   docker run -p 127.0.0.1:8420:8420 -v ./desk:/desk:ro -v arbor:/data -e ARBOR_TOKEN IMAGE serve /desk --addr 0.0.0.0:8420
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/arbor ./cmd/arbor && mkdir -m 1777 /out/tmp && mkdir /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/tmp /tmp
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build /out/arbor /arbor
ENV HOME=/data XDG_STATE_HOME=/data
USER 65532:65532
EXPOSE 8420
ENTRYPOINT ["/arbor"]
