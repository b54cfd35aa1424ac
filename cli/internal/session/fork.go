package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
)

// editOptions holds the flags of edit.
type editOptions struct {
	at   atFlag
	last bool
	to   string
}

func editCommand(f *factory.Factory) *cobra.Command {
	var o editOptions
	cmd := factory.Command("edit ID [TEXT|-]", func(cmd *cobra.Command, args []string) error { return editSession(cmd, f, args, o) })
	o.at.add(cmd, "edit the message at position `SEQ`")
	cmd.Flags().BoolVar(&o.last, "last", false, "edit the last message of the user")
	toFlag(cmd, &o.to)
	return cmd
}

func editSession(cmd *cobra.Command, f *factory.Factory, args []string, o editOptions) error {
	if !o.at.given() && !o.last {
		return factory.Usagef("--at or --last must name the message to edit; %s lists the positions",
			f.CommandLine("sessions history", "", factory.QuoteArg(args[0])))
	}
	if err := factory.Exclusive(cmd.Flags(), "at", "last"); err != nil {
		return err
	}
	ctx := cmd.Context()
	msg, err := factory.ReadMessage(f, args[1:])
	if err != nil {
		return err
	}
	s, err := open(ctx, f, args[0])
	if err != nil {
		return err
	}
	said, err := s.userMessages(ctx)
	switch {
	case err != nil:
		return err
	case len(said) == 0:
		return factory.Usagef("session %s has no message of the user", factory.ShownID(s.Key))
	}
	at := said[len(said)-1]
	if o.at.given() {
		if at = o.at.value; !slices.Contains(said, at) {
			return factory.Usagef("--at %d: session %s has no message of the user at this position; it has them at %s", at, factory.ShownID(s.Key), listed(said))
		}
	}
	to, err := s.target(o.to)
	if err != nil {
		return err
	}
	if err := s.Edit(ctx, s.Key, at, msg.Content, to); err != nil {
		return s.explain(err, to)
	}
	return begun(ctx, f, s.db, to, fmt.Sprintf("shares %s with %s", render.Count(int(at)-1, "event"), factory.ShownID(s.Key)))
}

// userMessages returns the positions of the user's messages.
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

// listed returns positions as text, only the last ones if there are many.
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

func forkCommand(f *factory.Factory) *cobra.Command {
	var at atFlag
	var to string
	cmd := factory.Command("fork ID", func(cmd *cobra.Command, args []string) error { return forkSession(cmd.Context(), f, args[0], at, to) })
	at.add(cmd, "share the events up to position `SEQ` (default: the end)")
	toFlag(cmd, &to)
	return cmd
}

func forkSession(ctx context.Context, f *factory.Factory, id string, until atFlag, name string) error {
	s, at, err := openAt(ctx, f, id, until)
	if err != nil {
		return err
	}
	to, err := s.target(name)
	if err != nil {
		return err
	}
	if err := s.Fork(ctx, s.Key, at, to); err != nil {
		return s.explain(err, to)
	}
	return begun(ctx, f, s.db, to, fmt.Sprintf("shares %s with %s", render.Count(int(at), "event"), factory.ShownID(s.Key)))
}
