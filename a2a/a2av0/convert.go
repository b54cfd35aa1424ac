package a2av0

import (
	old "github.com/a2aproject/a2a-go/a2a"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	compat "github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
)

// toSendRequest converts the parameters, after checking what the SDK's conversion does not check.
func toSendRequest(p *old.MessageSendParams) (*sdk.SendMessageRequest, error) {
	if p.Message == nil {
		return nil, sdk.NewError(sdk.ErrInvalidParams, "params.message is required")
	}
	// Without a setting, 0.3 waits for the end, as 1.0 does.
	req, err := compat.ToV1SendMessageRequest(p)
	if err != nil {
		return nil, sdk.NewError(sdk.ErrInvalidParams, err.Error())
	}
	return req, nil
}

// withoutError adds a nil error to a conversion that cannot fail.
func withoutError[A, B any](convert func(A) B) func(A) (B, error) {
	return func(a A) (B, error) { return convert(a), nil }
}

func fromTask(t *sdk.Task) (any, error) { return fromEvent(t) }

// fromPushConfigs converts a list of push configurations to 0.3. The result is never null in JSON.
func fromPushConfigs(list []*sdk.PushConfig) []*old.TaskPushConfig {
	return append([]*old.TaskPushConfig{}, compat.FromV1PushConfigs(list)...)
}

// fromEvent converts an event to 0.3. It marks an event as the last of its stream if the task is over, or waits for the
// user or an authorization.
func fromEvent(e sdk.Event) (any, error) {
	event, err := compat.FromV1Event(e)
	if err != nil {
		return nil, err
	}
	switch event := event.(type) {
	case *old.TaskStatusUpdateEvent:
		event.Final = event.Final || event.Status.State == old.TaskStateAuthRequired
		replaceUnknownState(&event.Status)
	case *old.Task:
		replaceUnknownState(&event.Status)
	}
	return event, nil
}

// replaceUnknownState replaces a state that 0.3 does not have by its unknown state.
func replaceUnknownState(s *old.TaskStatus) {
	if s.State == old.TaskStateUnspecified {
		s.State = old.TaskStateUnknown
	}
}
