package main

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"

	"github.com/agentarbor/arbor/server/access"
)

// maxBody is the largest part of a request, in bytes, that the proxy keeps to send it again.
const maxBody = 1 << 20

// proxy distributes requests over the replicas.
type proxy struct {
	url    string
	server *http.Server
}

// serveProxy serves at a free port of this machine.
func serveProxy(f *fleet) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{url: "http://" + l.Addr().String(), server: &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetXForwarded() },
		Transport:     &roundRobin{backends: f.addresses},
		FlushInterval: -1, // send text as it arrives
		ErrorLog:      log.New(io.Discard, "", 0),
	}}}
	access.Harden(p.server)
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

func (p *proxy) close() { _ = p.server.Close() }

// roundRobin sends each request to the next backend. If a backend accepts no connection, it has received nothing, so
// the next one gets the request. If a connection breaks later, the client gets an error and decides whether to retry.
type roundRobin struct {
	backends func() []string // returns the addresses
	next     atomic.Uint32
}

func (b *roundRobin) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(r.Body, maxBody+1)); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		if len(body) > maxBody {
			return nil, errors.New("the body is too large")
		}
	}
	all := b.backends()
	err := errors.New("no replica is up")
	for range all {
		again := r.Clone(r.Context())
		again.URL = &url.URL{Scheme: "http", Host: all[int(b.next.Add(1))%len(all)], Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
		again.Host = again.URL.Host
		if r.Body != nil {
			again.Body = io.NopCloser(bytes.NewReader(body))
		}
		var resp *http.Response
		if resp, err = http.DefaultTransport.RoundTrip(again); err == nil {
			return resp, nil
		}
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "dial" {
			break
		}
	}
	return nil, err
}
