package cli

import (
	"context"
	"net/url"
	"strings"

	"github.com/agentarbor/arbor/session/postgres"
)

// openPostgres connects to the database of an address.
func (p *program) openPostgres(ctx context.Context) (*database, error) {
	shown := withoutPassword(p.flags.db)
	store, err := postgres.Open(ctx, p.flags.db)
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
