package cold

import (
	"context"
	"iter"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/genai"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

const app, user = "cold", "user"

type adkModel struct {
	hands bool
	seen  *int
}

func (m adkModel) Name() string { return "scripted" }

func (m adkModel) GenerateContent(_ context.Context, req *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		*m.seen = len(req.Contents)
		content := genai.NewContentFromText(sentence, genai.RoleModel)
		if m.hands {
			content = genai.NewContentFromParts([]*genai.Part{genai.NewPartFromFunctionCall(target, map[string]any{"agent_name": expert})}, genai.RoleModel)
		}
		yield(&model.LLMResponse{Content: content, FinishReason: genai.FinishReasonStop}, nil)
	}
}

// openADK opens the session service that keeps sessions in a database, with the driver that Arbor has, on a file that waits
// for the disk as SQLite does by default.
func openADK(where string, seen *int) (*runner.Runner, session.Service, error) {
	sessions, err := database.NewSessionService(&sqlite.Dialector{DriverName: "sqlite", DSN: where}, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, nil, err
	}
	below, err := llmagent.New(llmagent.Config{Name: expert, Description: "Answers about " + expert, Instruction: "You are " + expert + ".", Model: adkModel{false, seen}})
	if err != nil {
		return nil, nil, err
	}
	top, err := llmagent.New(llmagent.Config{Name: root, Instruction: "You are " + root + ".", Model: adkModel{true, seen}, SubAgents: []agent.Agent{below}})
	if err != nil {
		return nil, nil, err
	}
	r, err := runner.New(runner.Config{AppName: app, Agent: top, SessionService: sessions, AutoCreateSession: true})
	return r, sessions, err
}

func answerADK(ctx context.Context, r *runner.Runner) (said string, err error) {
	for e, err := range r.Run(ctx, user, "s1", genai.NewContentFromText(message, genai.RoleUser), agent.RunConfig{}) {
		if err != nil {
			return "", err
		}
		if e.Content != nil && len(e.Content.Parts) > 0 && e.Content.Parts[0].Text != "" {
			said = e.Content.Parts[0].Text
		}
	}
	return said, nil
}

// fillADK runs two turns, and appends the events of the second again for the others.
func fillADK(ctx context.Context, where string, turns int) error {
	var seen int
	r, sessions, err := openADK(where, &seen)
	if err != nil {
		return err
	}
	if err := database.AutoMigrate(sessions); err != nil {
		return err
	}
	get := func() (session.Session, error) {
		found, err := sessions.Get(ctx, &session.GetRequest{AppName: app, UserID: user, SessionID: "s1"})
		if err != nil {
			return nil, err
		}
		return found.Session, nil
	}
	before := 0
	for i := range min(turns, 2) {
		if _, err := answerADK(ctx, r); err != nil {
			return err
		}
		if i == 0 {
			s, err := get()
			if err != nil {
				return err
			}
			before = s.Events().Len()
		}
	}
	s, err := get()
	if err != nil {
		return err
	}
	var again []*session.Event
	for i := before; i < s.Events().Len(); i++ {
		again = append(again, s.Events().At(i))
	}
	for range turns - 2 {
		for _, e := range again {
			fresh := session.NewEvent(ctx, e.InvocationID)
			fresh.Author, fresh.Branch, fresh.LLMResponse, fresh.Actions = e.Author, e.Branch, e.LLMResponse, e.Actions
			if err := sessions.AppendEvent(ctx, s, fresh); err != nil {
				return err
			}
		}
	}
	return nil
}

func turnADK(ctx context.Context, where string) (said string, seen int, err error) {
	r, _, err := openADK(where, &seen)
	if err != nil {
		return "", 0, err
	}
	said, err = answerADK(ctx, r)
	return said, seen, err
}
