// Package users is the command users, which edits the file of the users that may call a server.
package users

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/access/usersfile"
)

// Command returns the command users.
func Command(f *factory.Factory) *cobra.Command {
	var file string
	cmd := factory.Group("users", addUser(f, &file), listUsers(f, &file), removeUser(f, &file))
	factory.UsersFlag(f, cmd.PersistentFlags(), &file)
	return cmd
}

func addUser(f *factory.Factory, file *string) *cobra.Command {
	var may []string
	cmd := factory.Command("add NAME", func(_ *cobra.Command, args []string) error {
		rights, grants, err := access.ReadRights(may...)
		if err != nil {
			return factory.Usagef("--may: %w", err)
		}
		path, err := f.UsersPath(*file)
		if err != nil {
			return err
		}
		if *file == "" {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return factory.Usagef("the folder of the users file cannot be created: %w", err)
			}
		}
		token, err := usersfile.Add(path, args[0], rights, grants...)
		if err != nil {
			return factory.Usage(err)
		}
		f.Say("%s is in %s; the token is not shown again", args[0], path)
		fmt.Fprintln(f.Stdout, token)
		return nil
	})
	cmd.Flags().StringSliceVar(&may, "may", nil, "grant these `RIGHTS`, separated by commas: "+strings.Join(access.All.Names(), ", ")+", or names of your own")
	return cmd
}

// jsonUser is the JSON of users ls --json.
type jsonUser struct {
	Name string   `json:"name"`
	May  []string `json:"may"`
}

func listUsers(f *factory.Factory, file *string) *cobra.Command {
	return f.WithJSON(factory.Command("ls", func(*cobra.Command, []string) error {
		path, err := f.UsersPath(*file)
		if err != nil {
			return err
		}
		all, err := usersfile.Read(path)
		switch {
		case err != nil && (*file != "" || !errors.Is(err, fs.ErrNotExist)):
			return factory.Usage(err)
		case len(all) == 0:
			f.Say("there are no users besides the owner")
			return nil
		}
		rows := f.Rows("NAME\tMAY")
		for _, user := range all {
			may := access.User{Rights: user.Rights, Grants: user.Grants}.RightNames()
			rows.Add(jsonUser{user.Name, may}, user.Name, cmp.Or(strings.Join(may, ", "), "-"))
		}
		return rows.Flush()
	}), "print one JSON object per user and line")
}

func removeUser(f *factory.Factory, file *string) *cobra.Command {
	return factory.Command("rm NAME", func(_ *cobra.Command, args []string) error {
		path, err := f.UsersPath(*file)
		if err == nil {
			err = usersfile.Remove(path, args[0])
		}
		if err != nil {
			return factory.Usage(err)
		}
		f.Say("%s is no longer in %s", args[0], path)
		return nil
	})
}
