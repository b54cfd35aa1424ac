package cli

import (
	"context"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
)

func (p *program) replayCommand() *cobra.Command {
	var f counterfactual
	var until atFlag
	var speed float64
	with := ""
	if !p.embedded() {
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
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.with != "" {
				if cmd.Flags().Changed("speed") {
					return usagef("--speed and --with exclude each other: what is compared has no pauses")
				}
				return p.replayWith(cmd.Context(), args[0], until, f)
			}
			for _, name := range []string{"with", "tree", "ask", "json", "model", "record", "replay", "prices"} {
				if cmd.Flags().Changed(name) {
					return usagef("--%s goes with --with PATH, the agents to play the session with", name)
				}
			}
			return p.replaySession(cmd.Context(), args[0], until, speed)
		},
	}
	until.add(cmd, "stop at position `SEQ` (default: the end)")
	cmd.Flags().Float64Var(&speed, "speed", 1, "play `N` times as fast (0: without pauses)")
	if !p.embedded() {
		cmd.Flags().StringVar(&f.with, "with", "", "play the session with the agents in `PATH`")
		cmd.Flags().StringVar(&f.tree, "tree", "", "compare the requests to models with those of the agents in `PATH`, which wrote the session")
		p.counterfactualFlags(cmd, &f)
	}
	return cmd
}

// maxPause is the longest pause of a replay.
const maxPause = 2 * time.Second

func (p *program) replaySession(ctx context.Context, id string, until atFlag, speed float64) error {
	if speed < 0 || math.IsNaN(speed) {
		return usagef("--speed %v: it is 0, or how many times as fast as it went", speed)
	}
	s, err := p.past(ctx, id)
	if err != nil {
		return err
	}
	at, err := s.position(until)
	if err != nil {
		return err
	}
	out := render.Transcript(p.Stdout, p.lookOf(p.Stdout))
	ctx, done := p.interrupts.turn(ctx)
	defer done()
	play := &player{Printer: out, ctx: ctx, speed: speed}
	if !isTerminal(p.Stdout) {
		play.speed = 0
	}
	_, err = s.replay(ctx, at, play)
	if ctx.Err() != nil {
		out.Hide()
		return statusError(StatusInterrupted)
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
