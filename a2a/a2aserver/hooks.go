package a2aserver

import (
	"context"
	"errors"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/a2a/a2aserver/push"
	"github.com/agentarbor/arbor/internal/sleep"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
)

// The operations on push notification configs follow (A2A 1.0, sections 3.1.7 to 3.1.10). A config belongs to a task,
// so each operation first looks up the task with the rights of the caller.

// CreateTaskPushConfig implements a2asrv.RequestHandler.
func (h handler) CreateTaskPushConfig(ctx context.Context, req *sdk.PushConfig) (*sdk.PushConfig, error) {
	s, f, err := h.hooked(ctx, req.Tenant, req.TaskID)
	if err != nil {
		return nil, err
	}
	return s.hook(ctx, f, req)
}

// GetTaskPushConfig implements a2asrv.RequestHandler.
func (h handler) GetTaskPushConfig(ctx context.Context, req *sdk.GetTaskPushConfigRequest) (*sdk.PushConfig, error) {
	t, err := h.pushTask(ctx, req.Tenant, req.TaskID)
	if err != nil {
		return nil, err
	}
	return h.hooks.Get(ctx, t, req.ID)
}

// ListTaskPushConfigs implements a2asrv.RequestHandler.
func (h handler) ListTaskPushConfigs(ctx context.Context, req *sdk.ListTaskPushConfigRequest) (*sdk.ListTaskPushConfigResponse, error) {
	t, err := h.pushTask(ctx, req.Tenant, req.TaskID)
	if err != nil {
		return nil, err
	}
	return h.hooks.List(ctx, t, req.PageSize, req.PageToken)
}

// DeleteTaskPushConfig implements a2asrv.RequestHandler.
func (h handler) DeleteTaskPushConfig(ctx context.Context, req *sdk.DeleteTaskPushConfigRequest) error {
	t, err := h.pushTask(ctx, req.Tenant, req.TaskID)
	if err != nil {
		return err
	}
	return h.hooks.Delete(ctx, t, req.ID)
}

// hooked finds the task of a config.
func (h handler) hooked(ctx context.Context, tenant string, id sdk.TaskID) (*served, *storedTask, error) {
	if h.hooks == nil {
		return nil, nil, sdk.ErrPushNotificationNotSupported
	}
	return h.find(ctx, tenant, id)
}

func (h handler) pushTask(ctx context.Context, tenant string, id sdk.TaskID) (push.Task, error) {
	s, f, err := h.hooked(ctx, tenant, id)
	if err != nil {
		return push.Task{}, err
	}
	return s.pushTask(f.key, id), nil
}

func (s *served) pushTask(key session.Key, id sdk.TaskID) push.Task {
	return push.Task{Tenant: s.tenant, Caller: key.User, Task: id}
}

// hook saves a config for a task and starts to post the task's events to it.
func (s *served) hook(ctx context.Context, f *storedTask, cfg *sdk.PushConfig) (*sdk.PushConfig, error) {
	t := s.pushTask(f.key, f.task.ID)
	saved, err := s.hooks.Save(ctx, t, s.protocol(ctx), cfg)
	if err == nil {
		s.hooks.Behind(t, saved.ID)
		s.push(f.key, f.task.ID) // even if the task is over, so that the webhook receives its end
	}
	return saved, err
}

// protocol returns the protocol version of a request.
func (s *Server) protocol(ctx context.Context) sdk.ProtocolVersion {
	if call, ok := a2asrv.CallContextFrom(ctx); ok {
		if v, ok := call.ServiceParams().Get(sdk.SvcParamVersion); ok && len(v) > 0 && v[0] != "" {
			return sdk.ProtocolVersion(v[0])
		}
	}
	if s.compat != nil {
		return "0.3"
	}
	return sdk.Version
}

// longestPause is the longest pause before the server retries to read a task for its webhooks.
const longestPause = time.Minute

// push posts a task and its later updates to its webhooks, if it has any. It returns at once.
func (s *served) push(key session.Key, id sdk.TaskID) {
	t := s.pushTask(key, id)
	if s.hooks == nil || !s.hooks.Follows(t) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if _, running := s.posting[t]; running {
		s.posting[t] = true
		return
	}
	s.posting[t] = false
	s.posts.Add(1)
	go func() {
		defer s.posts.Done()
		ctx := access.WithUser(s.background, access.User{Name: t.Caller})
		pause := s.firstPause
		for again := true; again; {
			f, err := s.find(ctx, id, false)
			if err == nil {
				err = s.post(ctx, t, f)
			}
			if errors.Is(err, sdk.ErrTaskNotFound) { // the session was deleted
				err = s.hooks.Drop(ctx, t)
			}
			failed := err != nil && ctx.Err() == nil
			if failed { // the store will be back, or the session no longer exists
				s.logger.Warn("cannot post updates of a task to its webhooks; retrying", "task", string(id), "error", err)
				_ = sleep.For(ctx, pause)
				pause = min(2*pause, longestPause)
				failed = s.hooks.Follows(t)
			}
			s.mu.Lock()
			if again = (s.posting[t] || failed) && s.background.Err() == nil; again {
				s.posting[t] = false
			} else {
				delete(s.posting, t)
			}
			s.mu.Unlock()
		}
	}()
}

// pushPrevious posts to the webhooks of the session's previous task that the task is over, if it waited for an answer.
// No other code follows that task. The log ended at a position when the next task began.
func (s *served) pushPrevious(ctx context.Context, key session.Key, at int64) {
	if s.hooks == nil || !s.hooks.Has(s.tenant, key.User) {
		return
	}
	_, marks, err := s.since(ctx, key, at)
	if err != nil {
		s.logger.Warn("the previous task cannot be found, so its webhooks are not notified of its end", "session", key.String(), "error", err)
	} else if len(marks) > 1 {
		s.push(key, marks[0].id)
	}
}

// post posts the task as it is now, and then its updates until it is settled.
func (s *served) post(ctx context.Context, t push.Task, f *storedTask) error {
	s.hooks.Notify(t, f.current(), f.current)
	if f.settled() {
		return nil
	}
	for e, err := range s.follow(ctx, f) {
		if err != nil {
			return err
		}
		s.hooks.Notify(t, e, f.current)
	}
	return nil
}
