package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
)

// editing is what the flags of edit say.
type editing struct {
	at   atFlag
	last bool
	to   string
}

func (p *program) editCommand() *cobra.Command {
	var f editing
	cmd := &cobra.Command{
		Use:   "edit ID [TEXT|-]",
		Short: "Create a session in which the user says something else",
		Long: `Creates a session in which one of the user's messages is replaced by TEXT. The new
session shares everything before that message and nothing after it. The other session
does not change. The command prints the id of the new session; resume answers the
message. Without TEXT, or with -, the message is read from standard input.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return fmt.Errorf("%s too many: %q; put a message of several words in quotes", render.Count(len(args)-2, "argument"), args[2])
			}
			return exactly("ID")(cmd, args[:min(len(args), 1)])
		},
		RunE: func(cmd *cobra.Command, args []string) error { return p.editSession(cmd.Context(), args, f) },
	}
	f.at.add(cmd, "edit the message at position `SEQ`")
	cmd.Flags().BoolVar(&f.last, "last", false, "edit the last message of the user")
	toFlag(cmd, &f.to)
	return cmd
}

func (p *program) editSession(ctx context.Context, args []string, f editing) error {
	if !f.at.given() && !f.last {
		return usagef("which message? give --at with its position, or --last; %s lists the positions",
			p.commandLine("sessions history", "", quoteArg(args[0])))
	}
	if f.at.given() && f.last {
		return usagef("--at and --last exclude each other")
	}
	msg, err := p.message(args[1:])
	if err != nil {
		return err
	}
	s, err := p.past(ctx, args[0])
	if err != nil {
		return err
	}
	said, err := s.userMessages(ctx)
	switch {
	case err != nil:
		return err
	case len(said) == 0:
		return usagef("session %s has no message of the user", shownID(s.Key))
	}
	at := said[len(said)-1]
	if f.at.given() {
		if at = f.at.value; !slices.Contains(said, at) {
			return usagef("--at %d: session %s has no message of the user at this position; it has them at %s", at, shownID(s.Key), listed(said))
		}
	}
	to, err := s.target(f.to)
	if err != nil {
		return err
	}
	if err := s.Edit(ctx, s.Key, at, msg.Content, to); err != nil {
		return s.explain(err, to)
	}
	return p.begun(ctx, s.db, to, fmt.Sprintf("shares %s with %s", render.Count(int(at)-1, "event"), shownID(s.Key)))
}

// userMessages returns the positions of what the user said.
func (s *past) userMessages(ctx context.Context) ([]int64, error) {
	var said []int64
	for e, err := range s.db.Load(ctx, s.Key, 0) {
		if err != nil {
			return nil, err
		}
		if e.Type() == event.TypeUser {
			said = append(said, e.Seq)
		}
	}
	return said, nil
}

// listed tells positions, of many only the last ones.
func listed(positions []int64) string {
	const most = 10
	var words []string
	if len(positions) > most {
		positions = positions[len(positions)-most:]
		words = append(words, "…")
	}
	for _, n := range positions {
		words = append(words, fmt.Sprint(n))
	}
	return strings.Join(words, ", ")
}
