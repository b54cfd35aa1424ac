package openaiapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// TestPerson: what a person has said since the last answer comes with the next one.
func TestPerson(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("streamed %t", stream), func(t *testing.T) {
			ctx := context.Background()
			room := must.Get(human.NewRoom())
			t.Cleanup(room.Close)
			a := must.Get(llmagent.New("support", "", scripted.Func("m", func(*llm.Request) scripted.Answer {
				return scripted.Reply(scripted.Text("I call somebody."), scripted.Call(agent.TransferTool, `{"agent_name":"human"}`))
			})))
			turns := newTurns(t, a, sessiontest.Memory(t), runner.WithDesk(room), runner.WithWait(2*time.Minute))
			room.Serve(turns.Runner().Deliver)
			w := newWindow(newWorldOn(t, turns))
			w.stream = stream
			one := w.say("A person, please")
			require.True(t, strings.HasPrefix(one.Content, "I call somebody."), one.Content)
			leg := room.Legs()[0].Leg
			require.NoError(t, room.Accept(ctx, leg, "Ann"))
			require.NoError(t, room.Say(ctx, leg, "What is it?"))
			two := w.say("My card").is(t, http.StatusOK)
			require.Equal(t, "What is it?", two.Content)
			require.Equal(t, one.Arbor.Session, two.Arbor.Session)
			three := w.say("is lost")
			require.Empty(t, three.Content, "nothing new")
			require.Equal(t, one.Arbor.Session, three.Arbor.Session)
			require.Equal(t, []string{"A person, please", "My card", "is lost"}, w.words(one.Arbor.Session))
		})
	}
}

// TestFiles: a file is a line of text.
func TestFiles(t *testing.T) {
	write := must.Get(tools.Func("write", "Writes.", func(ctx tools.Context, _ struct{}) (string, error) {
		_, err := ctx.SaveFile("report.txt", "text/plain", []byte("abc"))
		return "written", err
	}))
	a := must.Get(llmagent.New("support", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("There it is."))
		}
		return scripted.Reply(scripted.Text("One moment."), scripted.Call("write", "{}"))
	}), llmagent.WithTools(write)))
	for _, stream := range []bool{false, true} {
		w := newWindow(newWorld(t, a))
		w.stream = stream
		require.Equal(t, "One moment.\n\nFile: report.txt, text/plain, 3 bytes\n\nThere it is.", w.say("A report").Content)
	}
}
