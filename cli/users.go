package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/access/usersfile"
	"github.com/agentarbor/arbor/internal/render"
)

// usersFlag adds --users.
func (p *program) usersFlag(fs *pflag.FlagSet, file *string) {
	fs.StringVar(file, "users", "", "read the users and their rights from `FILE` (default "+p.name+"/users.yaml in the state directory)")
}

// usersPath returns the users file that a flag names, or the default one.
func (p *program) usersPath(file string) (string, error) {
	if file != "" {
		return file, nil
	}
	db, err := p.defaultFile()
	return filepath.Join(filepath.Dir(db), "users.yaml"), err
}

func (p *program) usersCommand() *cobra.Command {
	var file string
	cmd := group("users", "Add, list and remove those who may call a server besides its owner", p.addUser(&file), p.listUsers(&file), p.removeUser(&file))
	p.usersFlag(cmd.PersistentFlags(), &file)
	return cmd
}

func (p *program) addUser(file *string) *cobra.Command {
	var may []string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a user, and print the token once",
		Long: `Adds a user and prints the user's token. The file contains only a hash of it. A running
server notices the user within two seconds. Users see their own sessions; rights allow
more:
  inspect  read the sessions of all users, and the instructions and requests of agents
  act      also write, decide, stop and cancel there
  desk     answer conversations that were handed to a person
  approve  decide about calls that wait for an approval by staff
A right with another name, such as refunds, lets the user decide about calls that need it.`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			rights, grants, err := access.ReadRights(may...)
			if err != nil {
				return usagef("--may: %w", err)
			}
			path, err := p.usersPath(*file)
			if err != nil {
				return err
			}
			if *file == "" {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					return usagef("the folder of the users file cannot be made: %w", err)
				}
			}
			token, err := usersfile.Add(path, args[0], rights, grants...)
			if err != nil {
				return usageError{err}
			}
			p.say("%s is in %s; the token is not shown again", args[0], path)
			fmt.Fprintln(p.Stdout, token)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&may, "may", nil, "grant these `RIGHTS`, separated by commas: "+strings.Join(access.All.Names(), ", ")+", or names of your own")
	return cmd
}

func (p *program) listUsers(file *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the users and their rights",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			path, err := p.usersPath(*file)
			if err != nil {
				return err
			}
			all, err := usersfile.Read(path)
			switch {
			case *file == "" && errors.Is(err, fs.ErrNotExist):
				p.say("there are no users besides the owner")
				return nil
			case err != nil:
				return usageError{err}
			}
			table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
			if !asJSON {
				fmt.Fprintln(table, "NAME\tMAY")
			}
			for _, user := range all {
				if !asJSON {
					fmt.Fprintf(table, "%s\t%s\n", user.Name, cmp.Or(strings.Join(access.User{Rights: user.Rights, Grants: user.Grants}.RightNames(), ", "), "-"))
					continue
				}
				line, err := json.Marshal(struct {
					Name string   `json:"name"`
					May  []string `json:"may"`
				}{user.Name, access.User{Rights: user.Rights, Grants: user.Grants}.RightNames()})
				if err != nil {
					return err
				}
				fmt.Fprintln(p.Stdout, string(line))
			}
			return table.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per user and line")
	return cmd
}

func (p *program) removeUser(file *string) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a user, and revoke the token",
		Long: `Removes a user from the file. A running server notices it within two seconds, refuses the
user and closes the user's streams. The user's sessions stay, and running turns continue.`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := p.usersPath(*file)
			if err == nil {
				err = usersfile.Remove(path, args[0])
			}
			if err != nil {
				return usageError{err}
			}
			p.say("%s is no longer in %s", args[0], path)
			return nil
		},
	}
}

// accounts returns those who may call: the owner, and who is in the users file, which is followed
// until the command ends. The default file need not be there.
func (p *program) accounts(ctx context.Context, file string, owner access.Account) (*access.Accounts, error) {
	path, err := p.usersPath(file)
	if err != nil && file == "" { // there is no state directory, and so no default file
		return access.NewAccounts(owner)
	}
	users, err := usersfile.Open(path, file == "", owner)
	if err != nil {
		return nil, usageError{err}
	}
	if users.Readable() {
		p.say("%s can be read by others, who can make sign-ins of its users: chmod 600 it", path)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		users.Follow(ctx, func(n int, err error) {
			if err != nil {
				p.sayTo(p.Stderr, append([]string{"the users file cannot be used; the users stay as they were"}, problemLines(err)...)...)
				return
			}
			p.say("the users file has changed: the owner and %s from now on", render.Count(n, "user"))
		})
	}()
	p.atEnd(func() {
		cancel()
		<-done
	})
	return users.Accounts(), nil
}
