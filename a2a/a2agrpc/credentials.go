package a2agrpc

import (
	"context"
	"net/http"
	"net/url"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/agentarbor/arbor/server/access"
)

// credentialsOf returns the credentials of a call: those of an HTTP request to its authority, with its metadata as
// headers and without a query. A certificate counts only if the server's TLS configuration verified it.
func credentialsOf(ctx context.Context, header http.Header) access.Credentials {
	r := &http.Request{Host: header.Get(":authority"), Header: header, URL: &url.URL{}}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			r.TLS = &info.State
		}
		r.RemoteAddr = p.Addr.String()
	}
	return access.CredentialsOf(r)
}
