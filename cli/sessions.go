package cli

import "github.com/spf13/cobra"

func (p *program) sessionsCommand() *cobra.Command {
	cmd := group("sessions", "List, show, fork, compare, export, import, check, debug, explain, move and remove sessions, and get their files",
		p.listCommand(), p.ofServer(p.showCommand()), p.ofServer(p.historyCommand()), p.forkCommand(), p.editCommand(), p.diffCommand(), p.ofServer(p.replayCommand()),
		p.ofServer(p.exportCommand()), p.importCommand(), p.removeCommand(), p.followCommand(), p.ofServer(p.fileCommand()), p.checkCommand(), p.ofServer(p.debugCommand()), p.ofServer(p.whyCommand()))
	p.dbFlag(cmd.PersistentFlags())
	return cmd
}
