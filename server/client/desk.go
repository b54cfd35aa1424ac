package client

import (
	"context"

	"github.com/agentarbor/arbor/human"
)

// Handoffs returns the conversations that wait for a person or are with one, the oldest first. For
// this and for Deliver the token must give the right to the desk.
func (c *Client) Handoffs(ctx context.Context) ([]human.Handoff, error) {
	var all struct{ Handoffs []human.Handoff }
	err := c.do(ctx, c.get("desk", "handoffs"), &all)
	return all.Handoffs, err
}

// Deliver tells the server what a person at the desk says to the user, and then what becomes of
// the handoff: connected, on_hold, or a final status with the agent that goes on.
func (c *Client) Deliver(ctx context.Context, e human.Event) error {
	step := func(name string, in any) error {
		r, err := c.post(e.ID+name, in, "desk", "handoffs", e.HandoffID, name)
		if err == nil {
			err = c.do(ctx, r, new(human.Handoff))
		}
		return err
	}
	if e.Text != "" {
		if err := step("messages", map[string]string{"text": e.Text}); err != nil {
			return err
		}
	}
	switch e.Status {
	case human.None:
		return nil
	case human.Connected:
		return step("accept", struct{}{})
	case human.OnHold:
		return step("hold", struct{}{})
	}
	return step("complete", map[string]any{"status": e.Status, "to": e.TargetAgent, "reason": e.Reason})
}
