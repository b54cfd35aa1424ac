package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/checkpoint"
	"github.com/agentarbor/arbor/cli/internal/render"
	graph "github.com/agentarbor/arbor/conversation" // the name is a type of this package
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

func (p *program) exportCommand() *cobra.Command {
	var until atFlag
	var format, files string
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "Write a session for other programs or for people",
		Long: `Writes a session, until any position:

  jsonl   the events as they are stored, one a line
  md      a Markdown document
  html    a page that needs nothing besides itself
  openai  the messages in the format of chat completions, as a JSON array`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.exportSession(cmd.Context(), args[0], until, format, files)
		},
	}
	until.add(cmd, "position until which it is written (default: the end)")
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl, md, html or openai")
	cmd.Flags().StringVar(&files, "files", "", "`DIR` to write the session's files to as well")
	return cmd
}

func (p *program) exportSession(ctx context.Context, id string, until atFlag, format, files string) error {
	if !slices.Contains([]string{"jsonl", "md", "html", "openai"}, format) {
		return usagef("--format %s: jsonl, md, html and openai are possible", visible.Line(format))
	}
	s, err := p.past(ctx, id)
	if err != nil {
		return err
	}
	at, err := s.position(until)
	if err != nil {
		return err
	}
	if files != "" {
		made, err := s.filesOf(ctx, at)
		if err != nil {
			return err
		}
		for _, e := range made {
			d := e.Data.(*event.File)
			if d.URL != "" {
				continue
			}
			if _, err := put(ctx, s.db.Store, s.Key, files, d); err != nil {
				return err
			}
		}
	}
	switch format {
	case "jsonl":
		_, err = s.replay(ctx, at, render.JSONLines(p.Stdout))
		return err
	case "md":
		_, err = s.replay(ctx, at, render.Markdown(p.Stdout, id))
		return err
	}
	moment := &checkpoint.Moment{Graph: graph.New()}
	if at > 0 { // a fork may share nothing, and then has no events
		if moment, err = s.At(ctx, s.Key, at); err != nil {
			return err
		}
	}
	if format == "openai" {
		writeChat(p.Stdout, chatMessages(graph.Messages(moment.Graph, graph.Active{})))
		return nil
	}
	facts := ""
	if moment.Fold != nil {
		facts = s.moment(moment.Fold)
	}
	thread := graph.Thread(moment.Graph, graph.Active{}, graph.ThreadOptions{})
	return render.Page(p.Stdout, "Session "+visible.Line(shownID(s.Key)), facts, thread, s.until(ctx, at))
}
