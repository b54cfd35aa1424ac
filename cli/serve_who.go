package cli

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/session"
)

// tokenVariable is the environment variable that holds the owner's token of serve.
const tokenVariable = "ARBOR_TOKEN"

// maxSecretFile bounds the files with the token and the key, in bytes.
const maxSecretFile = 64 << 10

// owner is whose sessions the other commands have, too, and who may do everything.
var owner = access.User{Name: session.DefaultUser, Rights: access.All | access.Owner}

// everybody is let in with --no-token.
type everybody struct{}

func (everybody) Authenticate(context.Context, access.Credentials) (access.User, error) {
	return owner, nil
}

// callers are who may call a server.
type callers struct {
	access.Authenticator
	signIn *access.SignIn // nil with --no-token
	told   string         // what is printed about the owner's token
}

// callers returns who is let in at the listeners. The port is the one that browsers see.
func (p *program) callers(ctx context.Context, how *serving, listeners []net.Listener) (*callers, error) {
	for _, l := range listeners {
		if how.noToken && !onLoopback(l.Addr()) {
			return nil, usagef("--no-token: %s can be reached from other machines; listen at 127.0.0.1, or use a token", l.Addr())
		}
	}
	switch {
	case how.noToken && how.tokenFile != "":
		return nil, usagef("--no-token and --token-file exclude each other")
	case how.noToken && how.users != "":
		return nil, usagef("--no-token and --users exclude each other")
	case how.noToken && how.tls.ClientCA != "":
		return nil, usagef("--no-token and --client-ca exclude each other")
	case how.noToken && how.url != "" && !loopbackURL(how.url):
		return nil, usagef("--no-token: --url says that other machines are to reach the server; use a token")
	case how.noToken:
		return &callers{Authenticator: everybody{}, told: "no token is needed"}, nil
	}
	token, told, err := p.ownerToken(how)
	if err != nil {
		return nil, err
	}
	accounts, err := p.accounts(ctx, how.users, access.Account{Name: owner.Name, Token: access.HashToken(token), Rights: owner.Rights})
	if err != nil {
		return nil, err
	}
	var guesses access.Guesses
	o := access.SignInOptions{Guesses: &guesses}
	if tcp, ok := listeners[0].Addr().(*net.TCPAddr); ok {
		o.Port = tcp.Port
	}
	if u, err := url.Parse(how.url); err == nil && u.Host != "" {
		o.HTTPS = u.Scheme == "https"
		if n, err := strconv.Atoi(u.Port()); err == nil {
			o.Port = n
		} else if o.Port = 80; o.HTTPS {
			o.Port = 443
		}
	}
	signIn, err := access.NewSignIn(accounts, o)
	if err != nil {
		return nil, err
	}
	ways := []access.Authenticator{guesses.Limit(accounts), guesses.Limit(signIn)}
	if how.tls.ClientCA != "" {
		ways = append(ways, accounts.Certificates())
	}
	either, err := access.AnyOf(ways...)
	if err != nil {
		return nil, err
	}
	return &callers{either, signIn, told}, nil
}

// ownerToken returns the owner's token, and what is printed about it.
func (p *program) ownerToken(how *serving) (token, told string, err error) {
	switch {
	case how.tokenFile != "":
		if token, err = readSecret("--token-file", how.tokenFile); err != nil {
			return "", "", err
		}
		told = "the owner's token is that of " + how.tokenFile
	case p.Getenv(tokenVariable) != "":
		token = p.Getenv(tokenVariable)
		told = "the owner's token is that of " + tokenVariable
	default:
		token = rand.Text()
		told = "the owner's token of this run is " + token + " (set " + tokenVariable + " to choose one)"
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }) {
		return "", "", usagef("the token must be one word of ASCII letters, digits and signs, without commas")
	}
	return token, told, nil
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

// loopbackURL reports whether a URL leads to this machine.
func loopbackURL(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
