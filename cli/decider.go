package cli

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/access/usersfile"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
)

// decider is who decides by a command: the owner of the machine, or a user of the users file.
type decider struct{ by, users string }

func (d *decider) flags(fs *pflag.FlagSet) {
	fs.StringVar(&d.by, "by", "", "decide as the user `NAME` of the users file (default: the owner of this machine)")
	fs.StringVar(&d.users, "users", "", "with --by, read the users from `FILE` (default: the file of arbor users)")
}

// who returns the user with the rights that the users file gives now.
func (p *program) who(d decider) (access.User, error) {
	if d.by == "" {
		return owner, nil
	}
	path, err := p.usersPath(d.users)
	if err != nil {
		return access.User{}, err
	}
	all, err := usersfile.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return access.User{}, usageError{err}
	}
	i := slices.IndexFunc(all, func(a access.Account) bool { return a.Name == d.by })
	if i < 0 {
		return access.User{}, usagef("--by %s: %s has no such user", render.Cut(d.by, 40), path)
	}
	return access.User{Name: all[i].Name, Rights: all[i].Rights, Grants: all[i].Grants}, nil
}

// sign returns decisions as those of whoever decides, if they may.
func (c *conversation) sign(ctx context.Context, d decider, decisions []runner.Decision) ([]runner.Decision, error) {
	if len(decisions) == 0 {
		return nil, nil
	}
	who, err := c.p.who(d)
	if err != nil {
		return nil, err
	}
	fold, err := c.db.fold(ctx, c.key)
	if err != nil {
		return nil, err
	}
	signed, err := live.Deciders{}.Sign(who, c.key, fold.Questions(), decisions)
	if err != nil {
		return nil, usageError{err}
	}
	return signed, nil
}
