package a2agrpc

import (
	"context"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/agentarbor/arbor/access"
)

// credentialsOf returns the credentials of a call. Metadata entries serve as its headers, and it has no query. A
// certificate counts only if the server's TLS configuration verified it.
func credentialsOf(ctx context.Context, md metadata.MD) access.Credentials {
	c := access.Credentials{
		Header: func(name string) []string { return md.Get(name) },
		Cookie: func(name string) string { return cookieOf(md, name) },
	}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
			c.Certificates = info.State.VerifiedChains[0]
		}
		if from, ok := p.Addr.(*net.TCPAddr); ok {
			c.Remote = from.AddrPort().Addr()
		}
	}
	return c
}

func cookieOf(md metadata.MD, name string) string {
	value, count := "", 0
	cookies, err := http.ParseCookie(strings.Join(md.Get("cookie"), "; "))
	if err != nil {
		return ""
	}
	for _, cookie := range cookies {
		if cookie.Name == name {
			value = cookie.Value
			count++
		}
	}
	if count != 1 {
		return ""
	}
	return value
}
