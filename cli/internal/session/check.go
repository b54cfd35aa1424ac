package session

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/observe/debugbundle"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/integrity"
)

func checkCommand(f *factory.Factory) *cobra.Command {
	return f.WithJSON(factory.Command("check [ID]...", func(cmd *cobra.Command, args []string) error { return checkSessions(cmd.Context(), f, args) }), "print one JSON object per problem and line")
}

// jsonProblem is the JSON of sessions check --json. It has no position if the log could not be read to its end.
type jsonProblem struct {
	Session string `json:"session"`
	Seq     int64  `json:"seq,omitempty"`
	Message string `json:"message"`
}

func checkSessions(ctx context.Context, f *factory.Factory, args []string) error {
	db, err := f.OpenDB(ctx, false)
	if err != nil {
		return err
	}
	all, err := named(ctx, db, args)
	if len(args) == 0 && err == nil {
		all, err = db.List(ctx, session.Key{}, session.Page{})
	}
	if err != nil {
		return err
	}
	problems := 0
	for _, info := range all {
		n, err := checkSession(ctx, f, db, info.Key)
		if err != nil {
			return err
		}
		problems += n
	}
	if problems > 0 {
		f.Say("%s checked: %s", render.Count(len(all), "session"), render.Count(problems, "problem"))
		return factory.Exit(factory.StatusFailed)
	}
	f.Say("%s checked: nothing is wrong", render.Count(len(all), "session"))
	return nil
}

// checkSession prints the problems of one log, and returns their number.
func checkSession(ctx context.Context, f *factory.Factory, db *factory.Database, key session.Key) (problems int, err error) {
	var files []integrity.Violation
	found, failed := integrity.Check(withFiles(ctx, db, key, &files))
	found = append(found, files...)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if failed != nil {
		found = append(found, integrity.Violation{Message: "the log cannot be read on from here: " + failed.Error()})
	}
	for _, v := range found {
		if f.JSON {
			render.JSON(f.Stdout, jsonProblem{factory.ShownID(key), v.Seq, v.Message})
			continue
		}
		fmt.Fprintf(f.Stdout, "%s: %s\n", visible.Line(factory.ShownID(key)), visible.Line(v.String()))
	}
	return len(found), nil
}

func debugCommand(f *factory.Factory) *cobra.Command {
	var tree string
	var decisions int
	cmd := factory.Command("debug ID", func(cmd *cobra.Command, args []string) error {
		if err := factory.InRange("--decisions", decisions, 1, 0); err != nil {
			return err
		}
		b, err := debugBundle(cmd.Context(), f, args[0], tree, debugbundle.Options{Decisions: decisions})
		if err != nil {
			return err
		}
		return f.PrintJSON(b)
	})
	fs := cmd.Flags()
	fs.IntVar(&decisions, "decisions", 20, "print the last `N` decisions")
	f.JSONFlag(fs, "print JSON on one line")
	if !f.Embedded() {
		fs.StringVar(&tree, "tree", "", "also print the agents in `PATH`")
	}
	return cmd
}

func debugBundle(ctx context.Context, f *factory.Factory, id, path string, o debugbundle.Options) (*debugbundle.Bundle, error) {
	s, err := open(ctx, f, id)
	if err != nil {
		return nil, err
	}
	if path == "" && !f.Embedded() {
		return debugbundle.Stored(ctx, s.db.Store, s.Key, o)
	}
	tree, err := f.LookAt(path)
	if err != nil {
		return nil, err
	}
	r, err := runner.New(tree.Root().Agent, s.db.Store, f.Seats(tree)...)
	if err != nil {
		return nil, err
	}
	return debugbundle.New(ctx, r, s.Key, o)
}
