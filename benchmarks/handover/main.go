// Command handover plays one conversation of seven agents twice against a real endpoint, with requests of each agent's own
// and with shared requests, and reports how many tokens of the prompts the endpoint computed anew. Every third turn is a
// transfer. What the agents say is fixed, so that both conversations are the same: the endpoint reads each request and
// answers with one token, which is not used. The OPENAI_* variables name the model.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

func main() {
	agents := flag.String("agents", "benchmarks/routing/data/star/agents.jsonl", "file with the agents, the coordinator first")
	turns := flag.Int("turns", 20, "how many turns the conversation has")
	flag.Parse()
	model, err := openai.FromEnv(os.Getenv, "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("requests | turn without a transfer | first request after a transfer | after / without | cached from turn 5 on | first request after a transfer, ms")
	for _, name := range []string{"own", "shared"} {
		p := &play{model: model, turns: *turns}
		if err := p.run(*agents, name == "shared"); err != nil {
			log.Fatal(err)
		}
		p.report(name)
	}
}

// play is one conversation. It is the model of all agents.
type play struct {
	model                 llm.Model
	names                 []string
	turns, turn, step     int // step is the request of the turn
	at                    int // the agent that answers
	moved                 bool
	plain, arrived, times []int // tokens computed anew in turns without a transfer, and in requests after one with their ms
	input, cached         int
}

func (p *play) Name() string { return p.model.Name() }

// Generate asks the endpoint for one token, counts, and says what comes next in the conversation.
func (p *play) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		short, usage, began := *req, llm.Usage{}, time.Now()
		short.MaxTokens = 1
		for c, err := range p.model.Generate(ctx, &short) {
			if err != nil {
				yield(llm.Chunk{}, err)
				return
			}
			if c.Usage != nil {
				usage = *c.Usage
			}
		}
		p.count(usage, time.Since(began))
		p.step++
		switch {
		case p.turn%3 == 0 && !p.moved:
			p.moved, p.at = true, p.at%(len(p.names)-1)+1 // from specialist to specialist
			yield(llm.Chunk{Call: &llm.ToolCall{ID: "c", Name: agent.TransferTool, Arguments: fmt.Sprintf(`{"agent_name":%q,"reason":"It is their work"}`, p.names[p.at])}}, nil)
		case p.step == 1 && p.turn%2 == 0:
			yield(llm.Chunk{Call: &llm.ToolCall{ID: "c", Name: "look_up_" + p.names[p.at], Arguments: fmt.Sprintf(`{"id":%d}`, p.turn)}}, nil)
		default:
			yield(llm.Chunk{Text: fmt.Sprintf("Here is what I found for you in turn %d: the record is complete, the amount is %d and nothing is open. Is there anything else?", p.turn, 19*p.turn)}, nil)
		}
		yield(llm.Chunk{Finish: llm.FinishStop, Usage: &usage}, nil)
	}
}

func (p *play) count(u llm.Usage, took time.Duration) {
	anew := u.InputTokens - u.CachedTokens
	switch {
	case p.turn%3 != 0 && p.turn > 1: // nothing is cached before the first turn
		if p.step == 0 {
			p.plain = append(p.plain, 0)
		}
		p.plain[len(p.plain)-1] += anew
	case p.moved && p.step == 1:
		p.arrived, p.times = append(p.arrived, anew), append(p.times, int(took.Milliseconds()))
	}
	if p.turn >= 5 {
		p.input, p.cached = p.input+u.InputTokens, p.cached+u.CachedTokens
	}
}

func (p *play) run(file string, shared bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	p.names = make([]string, len(lines))
	var root agent.Agent
	var children []agent.Agent
	for i, line := range slices.Backward(lines) { // the coordinator is the first
		var a struct{ Name, Description, Instruction string }
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			return err
		}
		tool, err := tools.Func("look_up_"+a.Name, "Looks up a record of "+a.Name+".", func(tools.Context, struct {
			ID int `json:"id"`
		}) (string, error) {
			return strings.Repeat("The record has a line. ", 10), nil
		})
		if err != nil {
			return err
		}
		opts := []llmagent.Option{llmagent.WithDescription(a.Description), llmagent.WithTools(tool),
			llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true})}
		if i == 0 {
			opts = append(opts, llmagent.WithSubAgents(children...))
		}
		if root, err = llmagent.New(a.Name, a.Instruction, p, opts...); err != nil {
			return err
		}
		p.names[i], children = a.Name, append([]agent.Agent{root}, children...)
	}
	var opts []runner.Option
	if shared {
		opts = append(opts, runner.WithSharedRequests())
	}
	r, err := runner.New(root, session.NewMemory(), opts...)
	for p.turn = 1; p.turn <= p.turns && err == nil; p.turn++ {
		p.step, p.moved = 0, false
		said := fmt.Sprintf("This is my question number %d. I wrote to you about it last week, and nobody has answered yet. Please look at order %d again.", p.turn, 100+p.turn)
		for _, failed := range r.Run(context.Background(), session.ID("s"), llm.UserText(said)) {
			err = cmp.Or(err, failed)
		}
	}
	return err
}

func (p *play) report(name string) {
	plain, arrived := mean(p.plain), mean(p.arrived)
	fmt.Printf("%s | %.0f | %.0f | %.2f | %.1f %% | %.0f\n", name, plain, arrived, arrived/plain, 100*float64(p.cached)/float64(max(p.input, 1)), mean(p.times))
}

func mean(list []int) float64 {
	sum := 0
	for _, n := range list {
		sum += n
	}
	return float64(sum) / float64(max(len(list), 1))
}
