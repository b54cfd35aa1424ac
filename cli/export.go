package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/checkpoint"
	graph "github.com/agentarbor/arbor/conversation" // the name is a type of this package
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
		return usagef("--format %s: jsonl, md, html and openai are possible", oneLine(p.flags.export))
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
		_, err = s.replay(cmd.Context(), at, jsonLines{p.Stdout})
		return err
	case "md":
		_, err = s.replay(cmd.Context(), at, &markdown{w: p.Stdout, title: args[0]})
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
	return s.writePage(cmd.Context(), moment, at)
}
