// Package session has the command sessions, and bisect, which replays a session with earlier revisions of a tree.
package session

import (
	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/remote"
)

// Command makes the command sessions.
func Command(f *factory.Factory) *cobra.Command {
	cmd := factory.Group("sessions", "List, show, fork, compare, export, import, check, debug, explain, move and remove sessions, and get their files",
		listCommand(f), remote.OfServer(f, showCommand(f)), remote.OfServer(f, historyCommand(f)), forkCommand(f), editCommand(f), diffCommand(f), remote.OfServer(f, replayCommand(f)),
		remote.OfServer(f, exportCommand(f)), importCommand(f), removeCommand(f), followCommand(f), remote.OfServer(f, fileCommand(f)), checkCommand(f), remote.OfServer(f, debugCommand(f)), remote.OfServer(f, whyCommand(f)))
	f.DBFlag(cmd.PersistentFlags())
	return cmd
}
