package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Endpoint is the address of a server: [Stdio], [HTTP] or a [Transport].
type Endpoint interface {
	check() error
	// dial begins a connection. why returns what is known about its failure: "", or "; " and a text. If probe is not 0
	// and the server does not answer discover within that time, the transport itself answers that the server does not
	// know the method.
	dial(s *Server, probe time.Duration) (t sdk.Transport, why func() string, err error)
}

// startError is the error of a server that could not be started.
type startError struct{ err error }

func (e *startError) Error() string { return "it cannot be started: " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

func nothing() string { return "" }

// discover is the method that asks for the server's protocol versions, since version 2026-07-28.
const discover = "server/discover"

// Transport returns a transport of the protocol's SDK. It is called for each connection. A call that fails because the
// connection has ended is not sent again, because the server may have got it.
type Transport func() (sdk.Transport, error)

func (t Transport) check() error {
	if t == nil {
		return errors.New("the transport is nil")
	}
	return nil
}

func (t Transport) dial(*Server, time.Duration) (sdk.Transport, func() string, error) {
	made, err := t()
	return made, nothing, err
}

// HTTP is a server at a URL, over streamable HTTP.
type HTTP struct {
	URL string
	// Headers are sent with each request, for example Authorization. They are sent only to the host of the URL:
	// redirections to other hosts are refused.
	Headers map[string]string
	// Client sends the requests. Defaults to a client with the standard library's transport. Its redirection policy is
	// not used.
	Client *http.Client
}

func (h HTTP) check() error {
	if u, err := url.Parse(h.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("the URL is no http or https address")
	}
	for name, value := range h.Headers {
		if name == "" || strings.ContainsAny(name, " \r\n:") || strings.ContainsAny(value, "\r\n") {
			return fmt.Errorf("the header %q cannot be sent", name)
		}
	}
	return nil
}

func (h HTTP) dial(_ *Server, probe time.Duration) (sdk.Transport, func() string, error) {
	client := http.Client{}
	if h.Client != nil {
		client = *h.Client
	}
	base := client.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	client.Transport = &bounded{base, h, probe}
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme || len(via) > 5 {
			return errors.New("the server redirects to another place, which is refused")
		}
		return nil
	}
	return &sdk.StreamableClientTransport{Endpoint: h.URL, HTTPClient: &client, MaxEventSize: maxMessage}, nothing, nil
}

// bounded sends the headers, records which calls were sent and which of them the server refuses, and limits answers that
// are not streams, because the SDK reads them completely.
type bounded struct {
	http.RoundTripper
	at    HTTP
	probe time.Duration
}

func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(b.at.Headers) > 0 {
		req = req.Clone(req.Context())
		for name, value := range b.at.Headers {
			req.Header.Set(name, value)
		}
	}
	if b.probe > 0 && req.Header.Get("Mcp-Method") == discover {
		ctx, cancel := context.WithCancel(req.Context())
		defer time.AfterFunc(b.probe, cancel).Stop()
		req = req.WithContext(ctx)
	}
	noteSent(req.Context())
	resp, err := b.RoundTripper.RoundTrip(req)
	if r, ok := req.Context().Value(callKey{}).(*call); ok && err == nil && req.Method == http.MethodPost && resp.StatusCode == http.StatusNotFound {
		r.refused.Store(true)
	}
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &limited{resp.Body, maxMessage}
	}
	return resp, err
}

type limited struct {
	io.ReadCloser
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxMessage)
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
