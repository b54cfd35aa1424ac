package client

import (
	"context"

	"github.com/agentarbor/arbor/human"
)

// Handoffs returns the open handoffs, oldest first. The caller needs the right desk for Handoffs and Deliver.
func (c *Client) Handoffs(ctx context.Context) ([]human.Handoff, error) {
	var all struct{ Handoffs []human.Handoff }
	err := c.do(ctx, c.get("desk", "handoffs"), &all)
	return all.Handoffs, err
}

// Deliver sends the text of a person at the desk to the user, and then the new status of the handoff: connected,
// on_hold, or a final status with the agent that continues. An empty text or status sends none.
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
