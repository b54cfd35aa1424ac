package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/revisions"
	"github.com/agentarbor/arbor/eval/replay"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
)

// BisectCommand returns the command bisect.
func BisectCommand(f *factory.Factory) *cobra.Command {
	var o counterfactual
	var at atFlag
	var good, bad string
	cmd := factory.Command("bisect ID [PATH]", func(cmd *cobra.Command, args []string) error {
		path := "."
		if len(args) == 2 {
			path = args[1]
		}
		if good == "" {
			return factory.Usagef("--good is missing: name a revision that behaved correctly; see %s --help", cmd.CommandPath())
		}
		return bisect(cmd.Context(), f, args[0], path, good, bad, at, o)
	})
	cmd.Flags().StringVar(&good, "good", "", "the revision `REV` routed correctly")
	cmd.Flags().StringVar(&bad, "bad", "HEAD", "the revision `REV` routes differently")
	at.add(cmd, "start at the decision at position `SEQ` (default: where the two revisions first differ)")
	counterfactualFlags(f, cmd, &o)
	f.DBFlag(cmd.Flags())
	return cmd
}

// found is the JSON of bisect --json.
type found struct {
	revisions.Revision
	Candidates []revisions.Revision `json:"candidates,omitempty"` // if a skipped one may be the first as well
	Diff       string               `json:"diff"`
	Revisions  int                  `json:"revisions"`
	*replay.Bisection
	Skipped []skippedRevision `json:"skipped,omitempty"`
}

type skippedRevision struct {
	Commit string `json:"commit"`
	Reason string `json:"reason"`
}

func bisect(ctx context.Context, f *factory.Factory, id, path, good, bad string, at atFlag, o counterfactual) error {
	log, opts, err := o.open(ctx, f, id, at) // before any revision is loaded, because a failing revision would be skipped
	if err != nil {
		return err
	}
	dir, name, err := treeIn(path)
	if err != nil {
		return err
	}
	ctx, done := f.Interrupts.Turn(ctx)
	defer done()
	folder, err := revisions.Open(ctx, dir, f.Getenv)
	if err != nil {
		return factory.Usage(err)
	}
	revs, err := folder.Between(ctx, good, bad)
	if err != nil {
		return factory.Usage(err)
	}
	b, err := replay.Bisect(ctx, log, len(revs), func(i int) (agent.Agent, func(), error) {
		return revision(ctx, f, folder, revs[i], name, &o)
	}, opts...)
	if errors.Is(err, replay.ErrSameBehavior) {
		f.Say("%s", err)
		return factory.Exit(factory.StatusFindings)
	}
	if err != nil {
		return err
	}
	out := &found{Revision: revs[b.First], Revisions: len(revs), Bisection: b}
	if b.First-b.Since > 1 {
		out.Candidates = revs[b.Since+1 : b.First+1]
	}
	for _, skip := range b.Skipped {
		out.Skipped = append(out.Skipped, skippedRevision{revs[skip.Index].ID, skip.Reason})
	}
	if out.Diff, err = folder.Diff(ctx, revs[b.Since], revs[b.First]); err != nil {
		return err
	}
	if f.JSON {
		render.JSON(f.Stdout, out)
		return nil
	}
	tellFound(f, out, revs)
	return nil
}

// treeIn returns the folder of a tree, and the name of its file in the folder, "" if the tree is the folder.
func treeIn(path string) (dir, name string, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", "", factory.Usage(err)
	case info.IsDir():
		return path, "", nil
	}
	return filepath.Dir(path), filepath.Base(path), nil
}

// revision loads the tree of a revision.
func revision(ctx context.Context, f *factory.Factory, folder *revisions.Folder, r revisions.Revision, name string, o *counterfactual) (agent.Agent, func(), error) {
	dir, err := os.MkdirTemp("", f.Name+"-bisect-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	err = folder.Write(ctx, r, dir)
	if err == nil {
		var tree *factory.LoadedTree
		if tree, err = o.load(f, filepath.Join(dir, name)); err == nil {
			return tree.Agents.Root().Agent, func() { tree.End(); remove() }, nil
		}
	}
	remove()
	return nil, nil, factory.Usage(errors.New(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")))
}

var criteria = map[string]string{
	replay.ByRoute:   "what is done there follows from the log",
	replay.ByRequest: "what the model is asked there; --ask has it answer",
	replay.ByAnswer:  "how the models answer there now",
}

func tellFound(f *factory.Factory, b *found, revs []revisions.Revision) {
	look := f.TerminalOf(f.Stdout)
	if len(b.Candidates) > 0 {
		fmt.Fprintln(f.Stdout, "The first bad revision is one of these, of which all but the last were skipped:")
		for _, r := range b.Candidates {
			fmt.Fprintf(f.Stdout, "  %s %s\n", r.Short(), visible.Line(r.Subject))
		}
	} else {
		fmt.Fprintln(f.Stdout, look.Paint(render.Bold, b.ID+" is the first bad revision"))
		fmt.Fprintf(f.Stdout, "subject: %s\nauthor:  %s\ndate:    %s\n", visible.Line(b.Subject), visible.Line(b.Author), b.Date)
	}
	fmt.Fprintf(f.Stdout, "place:   turn %d%s, %s\ngood:    %s\nbad:     %s\njudged:  %s\n", b.Turn, position(b.Seq), visible.Line(b.Agent),
		visible.Cut(visible.Line(b.Good), 200), visible.Cut(visible.Line(b.Bad), 200), criteria[b.Criterion])
	fmt.Fprintf(f.Stdout, "played:  %d of %s\n\n", b.Played, render.Count(len(revs), "revision"))
	printDiff(f.Stdout, look, b.Diff)
	for _, skip := range b.Skipped {
		f.Say("skipped %s: %s", skip.Commit[:min(len(skip.Commit), 10)], skip.Reason)
	}
}
