package cli

import (
	"context"
	"net/url"
	"strings"

	"github.com/agentarbor/arbor/session"
)

// WithPostgres lets --db be the postgres:// address of a database, which open connects to,
// as package session/postgres does.
func WithPostgres(open func(ctx context.Context, address string) (session.Store, error)) Option {
	return func(p *program) { p.postgres = open }
}

// openPostgres connects to the database of an address.
func (p *program) openPostgres(ctx context.Context) (*database, error) {
	shown := withoutPassword(p.flags.db)
	if p.postgres == nil {
		return nil, usagef("--db %s: this program has no PostgreSQL in it; the option cli.WithPostgres adds it", shown)
	}
	store, err := p.postgres(ctx, p.flags.db)
	if err != nil {
		return nil, usagef("the sessions' database %s cannot be used: %w", shown, err)
	}
	return &database{Store: store, path: shown, remote: true}, nil
}

// withoutPassword returns the address of a server as messages show it. What cannot
// be read as an address is not shown.
func withoutPassword(address string) string {
	scheme, _, ok := strings.Cut(address, "://")
	if !ok {
		return address // a file
	}
	u, err := url.Parse(address)
	if err != nil {
		return scheme + "://…"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
		if u.User.Username() == "" {
			u.User = nil
		}
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "pass") {
			query.Del(name)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}
