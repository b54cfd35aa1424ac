package session

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/eval/replay"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/sleep"
	"github.com/agentarbor/arbor/internal/visible"
)

func replayCommand(f *factory.Factory) *cobra.Command {
	var o counterfactual
	var until atFlag
	var speed float64
	cmd := factory.Command("replay ID", func(cmd *cobra.Command, args []string) error {
		fs := cmd.Flags()
		if err := factory.Exclusive(fs, "speed", "with"); err != nil {
			return err
		}
		if o.with != "" {
			return replayWith(cmd.Context(), f, args[0], until, o)
		}
		for _, name := range []string{"tree", "ask", "json", "model", "record", "replay", "prices"} {
			if err := factory.Needs(fs, name, "with"); err != nil {
				return err
			}
		}
		return replaySession(cmd.Context(), f, args[0], until, speed)
	})
	until.add(cmd, "stop at position `SEQ` (default: the end)")
	cmd.Flags().Float64Var(&speed, "speed", 1, "play `N` times as fast (0: without pauses)")
	if !f.Embedded() {
		cmd.Flags().StringVar(&o.with, "with", "", "play the session with the agents in `PATH`")
		cmd.Flags().StringVar(&o.tree, "tree", "", "compare the requests to models with those of the agents in `PATH`, which wrote the session")
		counterfactualFlags(f, cmd, &o)
	}
	return cmd
}

// maxPause is the longest pause of a replay.
const maxPause = 2 * time.Second

func replaySession(ctx context.Context, f *factory.Factory, id string, until atFlag, speed float64) error {
	if speed < 0 || math.IsNaN(speed) {
		return factory.Usagef("--speed %v: give a number that is not negative, such as 2 (0: without pauses)", speed)
	}
	s, at, err := openAt(ctx, f, id, until)
	if err != nil {
		return err
	}
	out := render.Transcript(f.Stdout, f.TerminalOf(f.Stdout))
	ctx, done := f.Interrupts.Turn(ctx)
	defer done()
	play := &player{Printer: out, ctx: ctx, speed: speed}
	if !factory.IsTerminal(f.Stdout) {
		play.speed = 0
	}
	_, err = s.replay(ctx, at, play)
	if ctx.Err() != nil {
		out.Hide()
		return factory.Exit(factory.StatusInterrupted)
	}
	return err
}

// player prints events with the pauses that were between them.
type player struct {
	*render.Printer
	ctx   context.Context // its end ends all pauses
	speed float64
	last  time.Time
}

func (p *player) Event(e *event.Event) {
	if !p.last.IsZero() {
		_ = sleep.For(p.ctx, pause(e.Time.Sub(p.last), p.speed))
	}
	p.last = e.Time
	if p.ctx.Err() == nil {
		p.Printer.Event(e)
	}
}

// pause returns the pause of a replay for a recorded duration; speed 0 means no pause.
func pause(took time.Duration, speed float64) time.Duration {
	if speed <= 0 || took <= 0 {
		return 0
	}
	if scaled := float64(took) / speed; scaled < float64(maxPause) {
		return time.Duration(scaled)
	}
	return maxPause
}

// counterfactual contains the flags for replaying a session with other agents.
type counterfactual struct {
	with, tree string
	ask        bool
}

// counterfactualFlags adds the flags that sessions replay --with and bisect share.
func counterfactualFlags(f *factory.Factory, cmd *cobra.Command, o *counterfactual) {
	fs := cmd.Flags()
	fs.BoolVar(&o.ask, "ask", false, "after the first difference, continue with real models until the turn ends; tools never run")
	f.JSONFlag(fs, "print one JSON object")
	fs.StringVar(&f.Prices, "prices", "", "read the prices that the session's budgets used from `FILE` (YAML or JSON)")
	f.ModelFlag(fs)
}

func replayWith(ctx context.Context, f *factory.Factory, id string, until atFlag, o counterfactual) error {
	if until.given() && until.value == 0 {
		return factory.Usagef("--at 0: nothing is played until there; positions begin at 1")
	}
	log, opts, err := o.open(ctx, f, id, until)
	if err != nil {
		return err
	}
	now, err := o.load(f, o.with)
	if err != nil {
		return err
	}
	defer now.End()
	if o.tree != "" {
		old, err := o.load(f, o.tree)
		if err != nil {
			return err
		}
		defer old.End()
		opts = append(opts, replay.Against(old.Agents.Root().Agent))
	}
	ctx, done := f.Interrupts.Turn(ctx)
	defer done()
	r, err := replay.Play(ctx, log, now.Agents.Root().Agent, opts...)
	if err != nil {
		return err
	}
	if f.JSON {
		render.JSON(f.Stdout, r)
	} else {
		tell(f, r)
	}
	switch {
	case r.Difference != nil:
		return factory.Exit(factory.StatusFindings)
	case r.Stopped != nil:
		return factory.Exit(factory.StatusFailed)
	}
	return nil
}

// open reads a session's log for a replay until a position, and returns the options of the replay.
func (o *counterfactual) open(ctx context.Context, f *factory.Factory, id string, until atFlag) (*replay.Log, []replay.Option, error) {
	s, at, err := openAt(ctx, f, id, until)
	if err != nil {
		return nil, nil, err
	}
	log, err := replay.Read(s.Key, s.db.Load(ctx, s.Key, 0))
	if err != nil {
		return nil, nil, err
	}
	own, err := f.RunnerOpts()
	if err != nil {
		return nil, nil, err
	}
	opts := []replay.Option{replay.WithRunner(own...), replay.WithFiles(factory.StoredSession{DB: s.db, Key: s.Key}.FileBytes)}
	if until.given() {
		opts = append(opts, replay.Until(max(at, 1)))
	}
	if o.ask {
		opts = append(opts, replay.Live())
	}
	return log, opts, o.checkModels(f)
}

// checkModels returns an error if a flag about models is given and the replay asks none, or if they cannot be asked.
func (o *counterfactual) checkModels(f *factory.Factory) (err error) {
	switch {
	case o.ask:
		_, err = f.Models(f.Model)
	case f.Model != "" || f.Tape.Record != "" || f.Tape.Replay != "":
		err = factory.Usagef("--model, --record and --replay need --ask: without it, no model is called")
	}
	return err
}

// load loads a tree with which a session is replayed.
func (o *counterfactual) load(f *factory.Factory, path string) (t *factory.LoadedTree, err error) {
	if o.ask {
		return f.Load(path)
	}
	t = &factory.LoadedTree{}
	t.Agents, t.End, err = f.LoadTree(path, factory.Unused, agentfile.WithoutCredentials())
	return t, err
}

// tell prints the result of a replay.
func tell(f *factory.Factory, r *replay.Result) {
	played := fmt.Sprintf("%s, %s, %s", render.Count(r.Turns, "turn"), render.Count(r.Requests, "request"), render.Count(r.Tools, "tool call"))
	switch d := r.Difference; {
	case d != nil:
		tellDifference(f, d)
		fmt.Fprintf(f.Stdout, "\nplayed: %s\n", played)
		if r.Stopped != nil {
			f.Say("the turn was not played to its end: %s", r.Stopped.Reason)
		}
	case r.Stopped != nil:
		fmt.Fprintf(f.Stdout, "the same until turn %d%s: %s\n", r.Stopped.Turn, position(r.Stopped.Seq), played)
		f.Say("it cannot be played further: %s", r.Stopped.Reason)
	default:
		fmt.Fprintf(f.Stdout, "same to the end: %s\n", played)
	}
	if !r.Compared && r.Difference == nil {
		f.Say("what models were asked is not in a log: give --tree with the agents that made the session to compare it")
	}
}

func position(seq int64) string {
	if seq == 0 {
		return ""
	}
	return fmt.Sprintf(", position %d", seq)
}

func tellDifference(f *factory.Factory, d *replay.Difference) {
	look := f.TerminalOf(f.Stdout)
	fmt.Fprintf(f.Stdout, "%s\n", look.Paint(render.Bold, fmt.Sprintf("turn %d%s: %s", d.Turn, position(d.Seq), visible.Line(d.Message))))
	route := func(path []string) string { return visible.Line(strings.Join(path, " → ")) }
	open := ""
	if d.Open {
		open = " → …"
	}
	fmt.Fprintf(f.Stdout, "route then: %s\nroute now:  %s%s\n", route(d.Recorded), route(d.Route), open)
	for _, c := range d.Changes {
		fmt.Fprintf(f.Stdout, "\n%s\n", look.Paint(render.Bold, c.Part))
		printDiff(f.Stdout, look, c.Diff)
	}
}

// printDiff prints the lines of a diff, and those that differ in colours.
func printDiff(w io.Writer, look render.Terminal, diff string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(diff, "\n"), "\n") {
		line = strings.TrimRight(visible.Text(line), "\n")
		switch {
		case strings.HasPrefix(line, "-"):
			line = look.Paint(render.Red, line)
		case strings.HasPrefix(line, "+"):
			line = look.Paint(render.Green, line)
		}
		fmt.Fprintln(w, strings.TrimRight("  "+line, " "))
	}
}
