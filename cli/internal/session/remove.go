package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/session"
)

func removeCommand(f *factory.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "rm ID...",
		Short: "Delete sessions permanently",
		Long: `Deletes sessions with all their events. This cannot be undone. Forks keep what they share
with a deleted session, and the state of users and apps stays. If one of the sessions does
not exist or has a running turn, none is deleted.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return factory.Exactly("ID")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return removeSessions(f, cmd, args) },
	}
}

func removeSessions(f *factory.Factory, cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	var db *factory.Database
	var found []session.Info
	known := make(map[session.Key]bool)
	for _, id := range args {
		var info session.Info
		var err error
		if db == nil {
			db, info, err = factory.Stored(ctx, f, id)
		} else {
			info, err = db.Find(ctx, id)
		}
		if err != nil {
			return err
		}
		if !known[info.Key] {
			known[info.Key] = true
			found = append(found, info)
		}
	}
	return remove(ctx, db, found, func(s session.Info) {
		f.Say("removed session %s, which had %s", factory.ShownID(s.Key), render.Count(int(s.Seq), "event"))
	})
}

// remove deletes sessions. It holds all their leases first, so that nobody loses a
// session in the middle of a turn.
func remove(ctx context.Context, db *factory.Database, sessions []session.Info, done func(session.Info)) (failed error) {
	leases := make(map[session.Key]session.Lease, len(sessions))
	defer func() {
		for key, lease := range leases {
			_, err := db.Write(context.WithoutCancel(ctx), key, session.Write{Lease: lease, Release: true})
			failed = cmp.Or(failed, err)
		}
	}()
	for _, s := range sessions {
		lease, err := db.Write(ctx, s.Key, session.Write{Acquire: session.Self()})
		if errors.Is(err, agent.ErrSessionBusy) {
			return fmt.Errorf("session %s has a turn under way, and nothing was removed: %w", factory.ShownID(s.Key), err)
		}
		if err != nil {
			return err
		}
		leases[s.Key] = lease
	}
	for _, s := range sessions {
		if err := db.Delete(ctx, s.Key); err != nil {
			return err
		}
		delete(leases, s.Key)
		done(s)
	}
	return nil
}
