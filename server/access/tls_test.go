package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority() *authority {
	a := &authority{key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign}
	a.cert = must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key))))
	return a
}

// issue returns a certificate and its key in PEM.
func (a *authority) issue(name string) (cert, key []byte) {
	a.n++
	k := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1 + a.n), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der := must(x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(k))})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

func tlsFiles(t *testing.T, a *authority) TLSFiles {
	dir := t.TempDir()
	f := TLSFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), ClientCA: filepath.Join(dir, "ca.pem")}
	cert, key := a.issue("first")
	write(t, f.Cert, cert)
	write(t, f.Key, key)
	write(t, f.ClientCA, a.pem())
	return f
}

func TestTLS(t *testing.T) {
	a, other := newAuthority(), newAuthority()
	guard := must(New(Options{Users: must(AnyOf(ClientCertificates(nil), must(NewAccounts(Account{"ann", HashToken("good"), 0, nil}))))}))
	server := &http.Server{Handler: guard.Handler(http.HandlerFunc(hello)), TLSConfig: must(tlsFiles(t, a).Config()), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	Harden(server)
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	go func() { _ = server.ServeTLS(l, "", "") }()
	defer server.Close()

	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	ask := func(version uint16, token string, certs ...tls.Certificate) (string, int, string, error) {
		config := &tls.Config{RootCAs: roots, MaxVersion: version}
		if len(certs) > 0 { // sent, whatever the server asks for
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certs[0], nil }
		}
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		r := must(http.NewRequestWithContext(t.Context(), "GET", "https://"+l.Addr().String()+"/", nil))
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		got, err := transport.RoundTrip(r)
		if err != nil {
			return "", 0, "", err
		}
		defer got.Body.Close()
		return string(must(io.ReadAll(got.Body))), got.StatusCode, got.Proto, nil
	}
	body, status, proto, err := ask(tls.VersionTLS13, "good")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, "ann ", body)
	require.Equal(t, "HTTP/2.0", proto)
	_, status, _, err = ask(tls.VersionTLS12, "")
	require.NoError(t, err)
	require.Equal(t, 401, status, "a certificate is not asked of everybody")
	_, _, _, err = ask(tls.VersionTLS11, "good")
	require.Error(t, err)
	body, _, _, err = ask(tls.VersionTLS13, "", must(tls.X509KeyPair(a.issue("client"))))
	require.NoError(t, err)
	require.Equal(t, "CN=client ", body)
	_, _, _, err = ask(tls.VersionTLS13, "", must(tls.X509KeyPair(other.issue("client"))))
	require.Error(t, err)
}

// Renewed files are taken while the server runs; broken ones leave what there was, which is told
// without what is in them.
func TestRenewedCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		f := tlsFiles(t, a)
		var log strings.Builder
		f.Logger = slog.New(slog.NewTextHandler(&log, nil))
		config := must(f.Config())
		name := func() string {
			now := must(config.GetConfigForClient(nil))
			return must(x509.ParseCertificate(now.Certificates[0].Certificate[0])).Subject.CommonName
		}
		first := must(config.GetConfigForClient(nil))
		cert, key := a.issue("second")
		write(t, f.Cert, cert)
		time.Sleep(59 * time.Second)
		require.Equal(t, "first", name())
		time.Sleep(time.Second)
		require.Equal(t, "first", name(), "it does not fit the key yet")
		require.Contains(t, log.String(), "is invalid")
		require.NotContains(t, log.String(), "BEGIN")
		write(t, f.Key, key)
		time.Sleep(time.Minute)
		require.Equal(t, "second", name())
		second := must(config.GetConfigForClient(nil))
		require.NotSame(t, first, second)
		time.Sleep(time.Hour)
		require.Same(t, second, must(config.GetConfigForClient(nil)), "what has not changed is kept")
		require.NoError(t, os.Remove(f.Key))
		time.Sleep(time.Minute)
		require.Equal(t, "second", name())
	})
}

func TestTLSFilesThatCannotBeUsed(t *testing.T) {
	a := newAuthority()
	for name, spoil := range map[string]func(*TLSFiles){
		"no key":        func(f *TLSFiles) { f.Key = "" },
		"no file":       func(f *TLSFiles) { f.Cert += "x" },
		"another key":   func(f *TLSFiles) { _, key := a.issue("x"); write(t, f.Key, key) },
		"no PEM":        func(f *TLSFiles) { write(t, f.ClientCA, []byte("hunter2")) },
		"a key as cert": func(f *TLSFiles) { f.Cert = f.Key },
	} {
		f := tlsFiles(t, a)
		spoil(&f)
		_, err := f.Config()
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "hunter2")
		require.NotContains(t, err.Error(), "BEGIN")
	}
}
