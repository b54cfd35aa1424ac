// Command a2a runs two trees in one process that use the A2A protocol: the billing team serves its tree, and the tree
// of the support desk contains it as a specialist. The billing team's tool waits for an approval, which the user gets
// as a question. The program uses the endpoint of the OPENAI_* variables, or the offline model if none is set.
//
//	go run ./examples/a2a
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// token is the token that the support desk sends to the billing team. A real token is not a constant.
const token = "the-support-desk's-token"

func main() {
	model, err := openai.FromEnvOr(os.Getenv, offline.New())
	if err == nil {
		err = converse(context.Background(), os.Stdout, model,
			"I was charged twice, please refund charge ch_1004", "yes")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// converse starts the billing team's server and lets the support desk answer a user.
func converse(ctx context.Context, out io.Writer, model llm.Model, messages ...string) error {
	team, err := billingTeam(model)
	if err != nil {
		return err
	}
	address, stop, err := serve(team)
	if err != nil {
		return err
	}
	defer stop()
	desk, err := supportDesk(model, address)
	if err != nil {
		return err
	}
	r, err := runner.New(desk, session.NewMemory())
	if err != nil {
		return err
	}
	for _, text := range messages {
		fmt.Fprintf(out, "user: %s\n", text)
		for e, err := range r.Run(ctx, session.ID("s1"), llm.UserText(text)) {
			if err != nil {
				return err
			}
			switch d := e.Data.(type) {
			case *event.Transfer:
				fmt.Fprintf(out, "%s → %s (%s)\n", d.From, d.To, d.Reason)
			case *event.Text:
				fmt.Fprintf(out, "%s: %s\n", e.Agent, d.Content)
			}
		}
	}
	return nil
}

type refundIn struct {
	ChargeID string `json:"charge_id" jsonschema:"description=The charge to pay back\\, such as ch_1001"`
}

// billingTeam returns a tree that another team runs. It does not know the support desk.
func billingTeam(model llm.Model) (agent.Agent, error) {
	refund, err := tools.Func("refund_charge", "Refund one charge in full.", func(_ tools.Context, in refundIn) (string, error) {
		return "Charge " + in.ChargeID + " is refunded.", nil
	}, tools.NeedsApproval(tools.ByUser()))
	if err != nil {
		return nil, err
	}
	return llmagent.New("billing", "You handle refunds and invoices.", model,
		llmagent.WithDescription("Refunds, invoices, being charged twice"), llmagent.WithTools(refund))
}

// supportDesk returns a tree with a local specialist and a remote one.
func supportDesk(model llm.Model, address string) (agent.Agent, error) {
	billing, err := a2a.Remote("billing", address, a2a.WithBearer(token),
		a2a.WithDescription("Refunds, invoices, being charged twice"))
	if err != nil {
		return nil, err
	}
	tech, err := llmagent.New("tech", "You solve trouble with networks.", model,
		llmagent.WithDescription("Network, router, slow connections"))
	if err != nil {
		return nil, err
	}
	return llmagent.New("support", "Route to the right specialist.", model, llmagent.WithSubAgents(billing, tech))
}

// serve serves a tree at a free port of this machine, for clients with the token.
func serve(root agent.Agent) (address string, stop func(), err error) {
	callers, err := a2aserver.BearerTokens(map[string]string{token: "support-desk"})
	if err != nil {
		return "", nil, err
	}
	server, err := a2aserver.New(root, session.NewMemory(), a2aserver.WithAuthenticator(callers))
	if err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	web := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Print(err)
		}
	}()
	return "http://" + listener.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := errors.Join(server.Close(ctx), web.Shutdown(ctx)); err != nil {
			log.Print(err)
		}
	}, nil
}
