package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/checkpoint"
	"github.com/agentarbor/arbor/cli/internal/render"
	graph "github.com/agentarbor/arbor/conversation" // the name is a type of this package
	"github.com/agentarbor/arbor/internal/visible"
)

func (p *program) exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "Write a session for other programs or for people",
		Long: `Writes a session, until any position:

  jsonl   the events as they are stored, one a line
  md      a Markdown document
  html    a page that needs nothing besides itself
  openai  the messages in the format of chat completions, as a JSON array`,
		Args: exactly("ID"),
		RunE: p.exportSession,
	}
	p.atFlag(cmd, "position until which it is written (default: the end)")
	cmd.Flags().StringVar(&p.flags.export, "format", "jsonl", "jsonl, md, html or openai")
	return cmd
}

func (p *program) exportSession(cmd *cobra.Command, args []string) error {
	if !slices.Contains([]string{"jsonl", "md", "html", "openai"}, p.flags.export) {
		return usagef("--format %s: jsonl, md, html and openai are possible", visible.Line(p.flags.export))
	}
	s, err := p.past(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	at, err := s.position(cmd)
	if err != nil {
		return err
	}
	switch p.flags.export {
	case "jsonl":
		_, err = s.replay(cmd.Context(), at, render.JSONLines(p.Stdout))
		return err
	case "md":
		_, err = s.replay(cmd.Context(), at, render.Markdown(p.Stdout, args[0]))
		return err
	}
	moment := &checkpoint.Moment{Graph: graph.New()}
	if at > 0 { // a fork may share nothing, and then has no events
		if moment, err = s.At(cmd.Context(), s.Key, at); err != nil {
			return err
		}
	}
	if p.flags.export == "openai" {
		writeChat(p.Stdout, chatMessages(graph.Messages(moment.Graph, graph.Active{})))
		return nil
	}
	facts := ""
	if moment.Fold != nil {
		facts = s.moment(moment.Fold)
	}
	thread := graph.Thread(moment.Graph, graph.Active{}, graph.ThreadOptions{})
	return render.Page(p.Stdout, "Session "+visible.Line(shownID(s.Key)), facts, thread, s.until(cmd.Context(), at))
}
