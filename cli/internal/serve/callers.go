package serve

import (
	"context"
	"crypto/rand"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/access/usersfile"
)

// everybody is the authenticator of --no-token: it accepts every caller as the owner.
type everybody struct{}

func (everybody) Authenticate(context.Context, access.Credentials) (access.User, error) {
	return factory.Owner, nil
}

// callers are the users that a server accepts.
type callers struct {
	access.Authenticator
	signIn *access.SignIn // nil with --no-token
	note   string         // the message about the owner's token
}

// callersOf returns the authenticator of the listeners. Browsers use the port of the first one.
func callersOf(ctx context.Context, f *factory.Factory, o *options, listeners []net.Listener) (*callers, error) {
	for _, l := range listeners {
		if o.noToken && !onLoopback(l.Addr()) {
			return nil, factory.Usagef("--no-token: %s can be reached from other machines; listen at 127.0.0.1, or use a token", l.Addr())
		}
	}
	switch {
	case o.noToken && o.url != "" && !loopbackURL(o.url):
		return nil, factory.Usagef("--no-token: other machines reach the server at --url: use a token")
	case o.noToken:
		return &callers{Authenticator: everybody{}, note: "no token is needed"}, nil
	}
	token, note, err := ownerToken(f, o)
	if err != nil {
		return nil, err
	}
	accounts, err := accounts(ctx, f, o.users, access.Account{Name: factory.Owner.Name, Token: access.HashToken(token), Rights: factory.Owner.Rights})
	if err != nil {
		return nil, err
	}
	var guesses access.Guesses
	signing := access.SignInOptions{Guesses: &guesses}
	if tcp, ok := listeners[0].Addr().(*net.TCPAddr); ok {
		signing.Port = tcp.Port
	}
	if u, err := url.Parse(o.url); err == nil && u.Host != "" {
		signing.HTTPS = u.Scheme == "https"
		if n, err := strconv.Atoi(u.Port()); err == nil {
			signing.Port = n
		} else if signing.Port = 80; signing.HTTPS {
			signing.Port = 443
		}
	}
	signIn, err := access.NewSignIn(accounts, signing)
	if err != nil {
		return nil, err
	}
	ways := []access.Authenticator{guesses.Limit(accounts), guesses.Limit(signIn)}
	if o.tls.ClientCA != "" {
		ways = append(ways, accounts.Certificates())
	}
	either, err := access.AnyOf(ways...)
	if err != nil {
		return nil, err
	}
	return &callers{either, signIn, note}, nil
}

// ownerToken returns the owner's token, and the message about it.
func ownerToken(f *factory.Factory, o *options) (token, note string, err error) {
	switch {
	case o.tokenFile != "":
		if token, err = f.ReadSecret("--token-file", o.tokenFile); err != nil {
			return "", "", err
		}
		note = "the owner's token is that of " + o.tokenFile
	case f.Getenv(factory.TokenVariable) != "":
		token = f.Getenv(factory.TokenVariable)
		note = "the owner's token is that of " + factory.TokenVariable
	default:
		token = rand.Text()
		note = "the owner's token of this run is " + token + " (set " + factory.TokenVariable + " to choose one)"
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }) {
		return "", "", factory.Usagef("the token must be one word of ASCII letters, digits and signs, without commas")
	}
	return token, note, nil
}

// loopbackURL reports whether a URL refers to this machine.
func loopbackURL(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// accounts returns the accounts that may call: the owner, and those of the users file, which is watched until the
// command ends. The default file need not exist.
func accounts(ctx context.Context, f *factory.Factory, file string, owner access.Account) (*access.Accounts, error) {
	path, err := f.UsersPath(file)
	if err != nil && file == "" { // there is no state directory, and so no default file
		return access.NewAccounts(owner)
	}
	users, err := usersfile.Open(path, file == "", owner)
	if err != nil {
		return nil, factory.Usage(err)
	}
	if users.Readable() {
		f.Say("%s can be read by others, who can make sign-ins of its users: chmod 600 it", path)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		users.Follow(ctx, func(n int, err error) {
			if err != nil {
				f.SayTo(f.Stderr, append([]string{"the users file cannot be used; the users stay as they were"}, factory.ProblemLines(err)...)...)
				return
			}
			f.Say("the users file has changed: the owner and %s from now on", render.Count(n, "user"))
		})
	}()
	f.AtEnd(func() {
		cancel()
		<-done
	})
	return users.Accounts(), nil
}
