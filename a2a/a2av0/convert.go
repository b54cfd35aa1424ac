package a2av0

import (
	old "github.com/a2aproject/a2a-go/a2a"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	compat "github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
)

// toSend checks what the library's conversion takes for granted.
func toSend(p *old.MessageSendParams) (*sdk.SendMessageRequest, error) {
	if p.Message == nil {
		return nil, sdk.NewError(sdk.ErrInvalidParams, "params.message is required")
	}
	// Without a word about it, 0.3 waits for the end, as 1.0 does.
	req, err := compat.ToV1SendMessageRequest(p)
	if err != nil {
		return nil, sdk.NewError(sdk.ErrInvalidParams, err.Error())
	}
	return req, nil
}

// always makes a conversion that cannot fail one that could.
func always[A, B any](convert func(A) B) func(A) (B, error) {
	return func(a A) (B, error) { return convert(a), nil }
}

func fromTask(t *sdk.Task) (any, error) { return fromEvent(t) }

// fromHooks makes a list of 0.3, which is never null.
func fromHooks(list []*sdk.PushConfig) []*old.TaskPushConfig {
	return append([]*old.TaskPushConfig{}, compat.FromV1PushConfigs(list)...)
}

// fromEvent makes an event of 0.3. It is the last of its stream if the task is over, or waits
// for somebody.
func fromEvent(e sdk.Event) (any, error) {
	event, err := compat.FromV1Event(e)
	if err != nil {
		return nil, err
	}
	switch event := event.(type) {
	case *old.TaskStatusUpdateEvent:
		event.Final = event.Final || event.Status.State == old.TaskStateAuthRequired
		known(&event.Status)
	case *old.Task:
		known(&event.Status)
	}
	return event, nil
}

// known names the state that 0.3 has for those it does not know.
func known(s *old.TaskStatus) {
	if s.State == old.TaskStateUnspecified {
		s.State = old.TaskStateUnknown
	}
}
