// Package tree has the commands about a tree that run no turn: tree, lint, router and new.
package tree

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
)

// Command returns the command tree.
func Command(f *factory.Factory) *cobra.Command {
	var format string
	cmd := f.WithPath("tree", func(_ *cobra.Command, path string, _ []string) error {
		if err := factory.OneOf("--format", format, "text", "mermaid", "dot", "json"); err != nil {
			return err
		}
		tree, err := f.LookAt(path)
		if err != nil {
			return err
		}
		return render.TreeAs(format, f.Stdout, tree, f.TerminalOf(f.Stdout))
	})
	cmd.Flags().StringVarP(&format, "format", "f", "text", "draw in this `FORMAT`: text, mermaid, dot or json")
	return cmd
}

// scaffold is the tree that the command new writes.
//
//go:embed scaffold
var scaffold embed.FS

// The line of the scaffold's root that sets the profile for small models, as a comment and as a key.
const smallComment, smallKey = "\n# transfer: {profile: small}", "\ntransfer: {profile: small}"

// schemaFile is the schema of agents, to which the scaffold's agents refer for editors.
const schemaFile = "agent.schema.json"

// NewCommand returns the command new.
func NewCommand(f *factory.Factory) *cobra.Command {
	var small bool
	cmd := factory.Command("new DIR", func(_ *cobra.Command, args []string) error { return newTree(f, args[0], small) })
	cmd.Flags().BoolVar(&small, "small", false, "set the option for small models, such as models on a laptop")
	return cmd
}

func newTree(f *factory.Factory, dir string, small bool) error {
	if dir == "" {
		return factory.Usagef("DIR is empty: name the folder to create")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return factory.Usagef("the folder cannot be created: %w", err)
	}
	there, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return factory.Usagef("the folder cannot be read: %w", err)
	case len(there) > 0:
		return factory.Usagef("%s is not empty: it contains %s; name an empty folder or a new one", dir, there[0].Name())
	}
	err = fs.WalkDir(scaffold, "scaffold", func(path string, d fs.DirEntry, err error) error {
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(path, "scaffold")))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if err := os.Mkdir(to, 0o755); !errors.Is(err, fs.ErrExist) {
				return err
			}
			return nil
		}
		data, err := scaffold.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Base(to) == "README.md" {
			data = []byte(strings.ReplaceAll(string(data), "arbor ", f.Name+" "))
		}
		if small {
			data = []byte(strings.Replace(string(data), smallComment, smallKey, 1))
		}
		file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		if _, err = file.Write(data); err != nil {
			_ = file.Close()
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
		fmt.Fprintln(f.Stdout, visible.Line(to))
		return nil
	})
	if err != nil {
		return fmt.Errorf("the tree cannot be written: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, schemaFile), agentfile.Schema(), 0o644); err != nil {
		return fmt.Errorf("the schema for editors cannot be written: %w", err)
	}
	fmt.Fprintln(f.Stdout, visible.Line(filepath.Join(dir, schemaFile)))
	f.Say("to continue: %s", f.CommandLine("chat", factory.QuotePath(dir)))
	return nil
}

// SchemaCommand returns the command schema.
func SchemaCommand(f *factory.Factory) *cobra.Command {
	kinds := []string{"agent", "router", "graph"}
	return &cobra.Command{
		Use:       "schema KIND",
		ValidArgs: kinds,
		RunE: func(_ *cobra.Command, args []string) error {
			schemas := map[string]func() []byte{"agent": agentfile.Schema, "router": agentfile.RouterSchema, "graph": agentgraph.Schema}
			if err := factory.OneOf("KIND", args[0], kinds...); err != nil {
				return err
			}
			_, err := f.Stdout.Write(schemas[args[0]]())
			return err
		},
	}
}
