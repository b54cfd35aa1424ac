package a2a_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// newCertificate makes a certificate that signs itself.
func newCertificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "arbor"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	leaf := must.Get(x509.ParseCertificate(der))
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// Client certificates are shown to the card's origin and to trusted ones, and to no
// one else who asks for one.
func TestMutualTLS(t *testing.T) {
	cert, authorities := newCertificate(t)
	start := func(auth tls.ClientAuthType) func(*httptest.Server) {
		return func(s *httptest.Server) {
			s.EnableHTTP2 = true
			s.TLS = &tls.Config{ClientAuth: auth, ClientCAs: authorities}
			s.StartTLS()
		}
	}
	srv, elsewhere := newPeer(t, sdk.TransportProtocolJSONRPC, start(tls.RequireAndVerifyClientCert)), newPeer(t, sdk.TransportProtocolJSONRPC, start(tls.VerifyClientCertIfGiven))
	own := srv.card.SupportedInterfaces
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	roots.AddCert(elsewhere.Certificate())
	config := &tls.Config{RootCAs: roots}
	withCert := config.Clone()
	withCert.Certificates = []tls.Certificate{cert}
	withFunc := config.Clone()
	withFunc.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }

	client := func(c *tls.Config) a2a.Option {
		transport := &http.Transport{TLSClientConfig: c.Clone(), ForceAttemptHTTP2: true}
		t.Cleanup(transport.CloseIdleConnections)
		return a2a.WithHTTPClient(&http.Client{Transport: transport})
	}
	for name, opts := range map[string][]a2a.Option{
		"configuration":                 {a2a.WithTLSConfig(withCert)},
		"function":                      {a2a.WithTLSConfig(withFunc)},
		"certificate and configuration": {a2a.WithTLSConfig(config), a2a.WithClientCertificate(cert)},
		"of the HTTP client":            {client(withCert)},
		"certificate and HTTP client":   {client(config), a2a.WithClientCertificate(cert)},
	} {
		t.Run(name, func(t *testing.T) {
			srv.card.SupportedInterfaces = own
			_, _, err := newRunner(t, remotetest.Billing(t, srv.URL, opts...)).Turn("hi")
			require.NoError(t, err)
			last := srv.asked()[len(srv.asked())-1]
			require.Equal(t, "arbor", last.TLS.PeerCertificates[0].Subject.CommonName)
			require.Equal(t, 2, last.ProtoMajor, "HTTP/2 is spoken further")

			srv.card.SupportedInterfaces = elsewhere.card.SupportedInterfaces
			_, _, err = newRunner(t, remotetest.Billing(t, srv.URL, opts...)).Turn("hi")
			require.NoError(t, err)
			last = elsewhere.asked()[len(elsewhere.asked())-1]
			require.Empty(t, last.TLS.PeerCertificates)
			_, _, err = newRunner(t, remotetest.Billing(t, srv.URL, append(opts[:len(opts):len(opts)], a2a.WithTrustedOrigin(elsewhere.URL))...)).Turn("hi")
			require.NoError(t, err)
			last = elsewhere.asked()[len(elsewhere.asked())-1]
			require.Len(t, last.TLS.PeerCertificates, 1)
		})
	}
	_, _, err := newRunner(t, remotetest.Billing(t, srv.URL, a2a.WithTLSConfig(config))).Turn("hi")
	requireCode(t, err, a2a.CodeUnreachable)
	require.Equal(t, []string(nil), config.NextProtos, "what the developer gave is not changed")

	// The same for bindings that are not HTTP.
	for target, shown := range map[string]bool{"localhost:443": true, "https://localhost:443": true, "localhost:50051": false, "http://localhost:443": false} {
		var env a2a.Environment
		b := a2a.Binding{Protocol: sdk.TransportProtocolGRPC, Version: "1.0",
			Dial: func(_ context.Context, _ *sdk.AgentInterface, e a2a.Environment) (a2aclient.Transport, error) {
				env = e
				return counting{}, nil
			}}
		plain := newPeer(t, sdk.TransportProtocolJSONRPC, nil)
		plain.card.SupportedInterfaces = []*sdk.AgentInterface{sdk.NewAgentInterface(target, sdk.TransportProtocolGRPC)}
		remembers := withCert.Clone()
		remembers.NextProtos, remembers.ClientSessionCache = []string{"h2"}, tls.NewLRUClientSessionCache(0)
		require.NoError(t, ready(remotetest.Billing(t, plain.URL, a2a.WithBinding(b), a2a.WithTLSConfig(remembers), a2a.WithTrustedOrigin("https://localhost"))))
		require.Equal(t, shown, len(env.TLS.Certificates) == 1, target)
		require.Equal(t, roots, env.TLS.RootCAs)
		require.Empty(t, env.TLS.NextProtos)
		require.Equal(t, shown, env.TLS.ClientSessionCache != nil, "sessions tell who we are")
	}
}
