package cli

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/access"
)

// tokenVariable is the environment variable that holds the token of serve.
const tokenVariable = "ARBOR_TOKEN"

// maxSecretFile bounds the files with the token and the key, in bytes.
const maxSecretFile = 64 << 10

// serveUser is whose sessions callers have. It is not the user of the other commands,
// so that nobody who calls sees what was said at this machine.
const serveUser = "a2a"

// everybody is let in with --no-token.
type everybody struct{}

func (everybody) Authenticate(context.Context, access.Credentials) (access.User, error) {
	return access.User{Name: serveUser}, nil
}

func (everybody) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme { return nil }

// serveToken returns who lets callers in, and what is printed about it.
func (p *program) serveToken(how *serving, listeners []net.Listener) (auth a2aserver.Authenticator, told string, err error) {
	token := ""
	for _, l := range listeners {
		if how.noToken && !onLoopback(l.Addr()) {
			return nil, "", usagef("--no-token: %s can be reached from other machines; listen at 127.0.0.1, or use a token", l.Addr())
		}
	}
	switch {
	case how.noToken && how.tokenFile != "":
		return nil, "", usagef("--no-token and --token-file exclude each other")
	case how.noToken && how.url != "" && !loopbackURL(how.url):
		return nil, "", usagef("--no-token: --url says that other machines are to reach the server; use a token")
	case how.noToken:
		return everybody{}, "no token is needed", nil
	case how.tokenFile != "":
		if token, err = readSecret("--token-file", how.tokenFile); err != nil {
			return nil, "", err
		}
		told = "the token is that of " + how.tokenFile
	case p.Getenv(tokenVariable) != "":
		token = p.Getenv(tokenVariable)
		told = "the token is that of " + tokenVariable
	default:
		token = rand.Text()
		told = "the token of this run is " + token + " (set " + tokenVariable + " to choose one)"
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }) {
		return nil, "", usagef("the token must be one word of ASCII letters, digits and signs, without commas")
	}
	auth, err = a2aserver.BearerTokens(map[string]string{token: serveUser})
	return auth, told, err
}

// readSecret reads a file with one secret in it. No error holds what is in it.
func readSecret(flag, name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", usagef("%s: %w", flag, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	switch text := strings.TrimSpace(string(data)); {
	case err != nil:
		return "", usagef("%s: %w", flag, err)
	case text == "":
		return "", usagef("%s %s: the file is empty", flag, name)
	case len(data) > maxSecretFile:
		return "", usagef("%s %s: the file is too long", flag, name)
	default:
		return text, nil
	}
}

// signer returns what signs the card, and the set with its public key; nothing without
// --sign-key.
func (how *serving) signer() (keys []byte, signer *cardsign.Signer, err error) {
	if how.signKey == "" {
		return nil, nil, nil
	}
	text, err := readSecret("--sign-key", how.signKey)
	if err != nil {
		return nil, nil, err
	}
	var where []cardsign.SignerOption
	if strings.HasPrefix(how.url, "https://") { // elsewhere nobody should trust what stands there
		where = append(where, cardsign.WithKeySetURL(strings.TrimSuffix(how.url, "/")+keySetPath))
	}
	if signer, err = cardsign.NewSignerPEM([]byte(text), where...); err != nil {
		return nil, nil, usagef("--sign-key %s: %s", how.signKey, strings.TrimPrefix(err.Error(), "cardsign: "))
	}
	keys, err = cardsign.KeySet(signer.Key())
	return keys, signer, err
}

// loopbackURL reports whether a URL leads to this machine.
func loopbackURL(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
