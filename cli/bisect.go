package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/eval/replay"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/revisions"
	"github.com/agentarbor/arbor/internal/visible"
)

func (p *program) bisectCommand() *cobra.Command {
	var f counterfactual
	var at atFlag
	var good, bad string
	cmd := &cobra.Command{
		Use:   "bisect ID [PATH]",
		Short: "Find the revision in git that changed a route",
		Long: `Plays a stored session with revisions of the agents at PATH, which must be in a git
repository, and finds the first revision that behaves differently from the good one.
PATH defaults to the current folder. The log decides what a revision does. If only the
requests to models differ, the requests are compared, or --ask asks the models. Revisions
that cannot be loaded are skipped. The working tree does not change.

The status is 0 if a revision was found, and 1 if the good and the bad revision do the
same.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return fmt.Errorf("%s too many: %q; see %s --help", render.Count(len(args)-2, "argument"), args[2], cmd.CommandPath())
			}
			return exactly("ID")(cmd, args[:min(len(args), 1)])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "."
			if len(args) == 2 {
				path = args[1]
			}
			if good == "" {
				return usagef("--good is missing: name a revision that did what is right; see %s --help", cmd.CommandPath())
			}
			return p.bisect(cmd.Context(), args[0], path, good, bad, at, f)
		},
	}
	cmd.Flags().StringVar(&good, "good", "", "the revision `REV` routed correctly")
	cmd.Flags().StringVar(&bad, "bad", "HEAD", "the revision `REV` routes differently")
	at.add(cmd, "start at the decision at position `SEQ` (default: where the two revisions first differ)")
	p.counterfactualFlags(cmd, &f)
	p.dbFlag(cmd.Flags())
	return cmd
}

// found is the form of bisect --json.
type found struct {
	revisions.Revision
	Candidates []revisions.Revision `json:"candidates,omitempty"` // if skipped ones may be the first as well
	Diff       string               `json:"diff"`
	Revisions  int                  `json:"revisions"`
	*replay.Bisection
	Skipped []skippedRevision `json:"skipped,omitempty"`
}

type skippedRevision struct {
	Commit string `json:"commit"`
	Reason string `json:"reason"`
}

func (p *program) bisect(ctx context.Context, id, path, good, bad string, at atFlag, f counterfactual) error {
	s, err := p.past(ctx, id)
	if err != nil {
		return err
	}
	until, err := s.position(at)
	if err != nil {
		return err
	}
	log, opts, err := s.replayable(ctx, f)
	if err != nil {
		return err
	}
	if at.given() {
		opts = append(opts, replay.Until(max(until, 1)))
	}
	if f.ask {
		opts = append(opts, replay.Live())
	}
	dir, name, err := treeIn(path)
	if err != nil {
		return err
	}
	ctx, done := p.interrupts.turn(ctx)
	defer done()
	folder, err := revisions.Open(ctx, dir, p.Getenv)
	if err != nil {
		return usageError{err}
	}
	revs, err := folder.Between(ctx, good, bad)
	if err != nil {
		return usageError{err}
	}
	if _, err := p.modelsFor(&f); err != nil { // before any revision is, which would be skipped
		return err
	}
	b, err := replay.Bisect(ctx, log, len(revs), func(i int) (agent.Agent, func(), error) {
		return p.revision(ctx, folder, revs[i], name, &f)
	}, opts...)
	if errors.Is(err, replay.ErrNoParting) {
		p.say("%s", err)
		return statusError(StatusFindings)
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
	if f.json {
		render.JSON(p.Stdout, out)
		return nil
	}
	p.tellFound(out, revs)
	return nil
}

// treeIn returns the folder of a tree, and the name of its file in it, "" if the tree is the folder.
func treeIn(path string) (dir, name string, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", usagef("%s: there is no such file or folder", path)
	case err != nil:
		return "", "", usageError{err}
	case info.IsDir():
		return path, "", nil
	}
	return filepath.Dir(path), filepath.Base(path), nil
}

// revision loads the tree of a revision.
func (p *program) revision(ctx context.Context, folder *revisions.Folder, r revisions.Revision, name string, f *counterfactual) (agent.Agent, func(), error) {
	dir, err := os.MkdirTemp("", p.name+"-bisect-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	err = folder.Write(ctx, r, dir)
	if err == nil {
		var tree *replayedTree
		if tree, err = p.replayed(filepath.Join(dir, name), f); err == nil {
			return tree.Root().Agent, func() { tree.end(); remove() }, nil
		}
	}
	remove()
	return nil, nil, usageError{errors.New(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))}
}

var criteria = map[string]string{
	replay.ByRoute:   "what is done there follows from the log",
	replay.ByRequest: "what the model is asked there; --ask has it answer",
	replay.ByAnswer:  "how the models answer there now",
}

func (p *program) tellFound(f *found, revs []revisions.Revision) {
	look := p.lookOf(p.Stdout)
	if len(f.Candidates) > 0 {
		fmt.Fprintln(p.Stdout, "The first bad revision is one of these, of which all but the last were skipped:")
		for _, r := range f.Candidates {
			fmt.Fprintf(p.Stdout, "  %s %s\n", r.Short(), visible.Line(r.Subject))
		}
	} else {
		fmt.Fprintln(p.Stdout, look.Paint(render.Bold, f.ID+" is the first bad revision"))
		fmt.Fprintf(p.Stdout, "subject: %s\nauthor:  %s\ndate:    %s\n", visible.Line(f.Subject), visible.Line(f.Author), f.Date)
	}
	fmt.Fprintf(p.Stdout, "place:   turn %d%s, %s\ngood:    %s\nbad:     %s\njudged:  %s\n", f.Turn, position(f.Seq), visible.Line(f.Agent),
		render.Cut(visible.Line(f.Good), 200), render.Cut(visible.Line(f.Bad), 200), criteria[f.Criterion])
	fmt.Fprintf(p.Stdout, "played:  %d of %s\n\n", f.Played, render.Count(len(revs), "revision"))
	printDiff(p.Stdout, look, f.Diff)
	for _, skip := range f.Skipped {
		p.say("skipped %s: %s", skip.Commit[:min(len(skip.Commit), 10)], skip.Reason)
	}
}
