package session

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/internal/visible"
)

func exportCommand(f *factory.Factory) *cobra.Command {
	var until atFlag
	var format, files string
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "Export a session for other programs or for people",
		Long: `Exports a session, whole or up to a position:

  jsonl   the stored events, one per line
  md      a Markdown document
  html    a self-contained page
  openai  the messages in the format of chat completions, as a JSON array
  case    a case for eval: the user's messages, who answered, which tools were called`,
		Args: factory.Exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return exportSession(cmd.Context(), f, args[0], until, format, files)
		},
	}
	until.add(cmd, "export up to position `SEQ` (default: the end)")
	cmd.Flags().StringVar(&format, "format", "jsonl", "export in this `FORMAT`: jsonl, md, html, openai or case")
	cmd.Flags().StringVar(&files, "files", "", "also write the session's files to `DIR`")
	return cmd
}

func exportSession(ctx context.Context, f *factory.Factory, id string, until atFlag, format, files string) error {
	if _, ok := sessionform.Formats()[format]; !ok {
		return factory.Usagef("--format %s: jsonl, md, html, openai and case are possible", visible.Line(format))
	}
	s, err := open(ctx, f, id)
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
			if _, err := factory.Put(ctx, factory.StoredSession{DB: s.db, Key: s.Key}.FileBytes, files, d); err != nil {
				return err
			}
		}
	}
	return sessionform.Export(f.Stdout, format, factory.ShownID(s.Key), s.Seq, func() iter.Seq2[*event.Event, error] { return s.until(ctx, at) })
}
