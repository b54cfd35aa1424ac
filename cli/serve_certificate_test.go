package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/servers"
)

// A certificate of --client-ca is let in as the user of the users file that it names, until the user is removed from
// it, and as nobody else: not as the owner, and not as a user that nobody has added.
func TestServeCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	newKey := func() *ecdsa.PrivateKey {
		return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	}
	private := newKey()
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ann"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	signed := must.Get(x509.CreateCertificate(rand.Reader, authority, authority, &private.PublicKey, private))
	authority = must.Get(x509.ParseCertificate(signed))
	der := must.Get(x509.MarshalPKCS8PrivateKey(private))
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))

	i := invocation{home: t.TempDir(), env: []string{"ARBOR_TOKEN=first"}}
	require.Equal(t, 0, i.run(t, "users", "add", "ann").status)
	s := &served{running: &running{Cmd: i.command(t, "serve", desk, "--addr", servers.Address(t), "--tls-cert", cert, "--tls-key", key, "--client-ca", cert)}, t: t, said: &words{}}
	s.Stderr = s.said
	require.NoError(t, s.Start())
	s.said.until(t, "(once, within five minutes)", 1)
	base := pageAddress.FindStringSubmatch(s.said.String())[1]

	roots := x509.NewCertPool()
	roots.AddCert(authority)
	client := func(name string) func() (user string, status int) {
		k := newKey()
		template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: []string{"Example"}},
			NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		der := must.Get(x509.CreateCertificate(rand.Reader, template, authority, &k.PublicKey, private))
		own := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k}
		caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}}}
		t.Cleanup(caller.CloseIdleConnections)
		return func() (string, int) {
			req := must.Get(http.NewRequestWithContext(t.Context(), "GET", base+"/api/v1/me", nil))
			got, err := caller.Do(req)
			require.NoError(t, err)
			defer got.Body.Close()
			var me struct{ User string }
			require.NoError(t, json.NewDecoder(got.Body).Decode(&me))
			return me.User, got.StatusCode
		}
	}
	refused := i.run(t, "serve", desk, "--addr", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--client-ca", cert, "--no-token")
	require.Contains(t, refused.err, "--no-token and --client-ca exclude each other")
	ann := client("ann")
	user, status := ann()
	require.Equal(t, 200, status)
	require.Equal(t, "ann", user)
	for _, name := range []string{"ben", "local", "CN=ann", ""} {
		_, status = client(name)()
		require.Equal(t, 401, status, name)
	}
	require.Equal(t, 0, i.run(t, "users", "rm", "ann").status)
	s.said.until(t, "the owner and 0 users from now on", 1)
	_, status = ann() // over the connection that it has
	require.Equal(t, 401, status)
	require.Equal(t, 0, s.stop(os.Interrupt))
}
