package session

import (
	"context"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
)

func replayCommand(f *factory.Factory) *cobra.Command {
	var o counterfactual
	var until atFlag
	var speed float64
	with := ""
	if !f.Embedded() {
		with = `

With --with it is played again with the agents at PATH instead: what users, models and
tools said comes from the log, and the first place is printed where these agents ask or
do something else. The status is 0 if it is the same to the end, 1 if there is such a
place, and 3 if something cannot be played again. Nothing is stored.`
	}
	cmd := &cobra.Command{
		Use:   "replay ID",
		Short: "Play a session to the terminal, or again with other agents",
		Long: `Plays a session as it went: the messages and actions, with the pauses between them. Pauses
are cut to two seconds, and left out if standard output is not a terminal. No model is
called and no tool runs.` + with,
		Args: factory.Exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.with != "" {
				if cmd.Flags().Changed("speed") {
					return factory.Usagef("--speed and --with exclude each other: what is compared has no pauses")
				}
				return replayWith(cmd.Context(), f, args[0], until, o)
			}
			for _, name := range []string{"with", "tree", "ask", "json", "model", "record", "replay", "prices"} {
				if cmd.Flags().Changed(name) {
					return factory.Usagef("--%s goes with --with PATH, the agents to play the session with", name)
				}
			}
			return replaySession(cmd.Context(), f, args[0], until, speed)
		},
	}
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
		return factory.Usagef("--speed %v: it is 0, or how many times as fast as it went", speed)
	}
	s, err := open(ctx, f, id)
	if err != nil {
		return err
	}
	at, err := s.position(until)
	if err != nil {
		return err
	}
	out := render.Transcript(f.Stdout, f.LookOf(f.Stdout))
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

// player prints events with the pauses that lay between them.
type player struct {
	*render.Printer
	ctx   context.Context // its end is the end of all pauses
	speed float64
	last  time.Time
}

func (p *player) Event(e *event.Event) {
	if !p.last.IsZero() {
		sleep(p.ctx, pause(e.Time.Sub(p.last), p.speed))
	}
	p.last = e.Time
	if p.ctx.Err() == nil {
		p.Printer.Event(e)
	}
}

// pause returns how long a replay waits for what took so long; speed 0 waits for
// nothing.
func pause(took time.Duration, speed float64) time.Duration {
	if speed <= 0 || took <= 0 {
		return 0
	}
	if scaled := float64(took) / speed; scaled < float64(maxPause) {
		return time.Duration(scaled)
	}
	return maxPause
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
