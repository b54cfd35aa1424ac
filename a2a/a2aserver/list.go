package a2aserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/session"
)

// ListTasks implements a2asrv.RequestHandler (A2A 1.0, section 3.1.4). It returns the caller's tasks in pages, the most
// recently changed first. A page continues after the last task of the previous page, so new tasks do not shift the
// pages. A page ends early when its tasks are large, so that an answer cannot grow without limit, and when the search
// for matching tasks takes too long. The total counts the tasks that were visited, so for a caller with very many tasks
// it is a lower bound.
func (h handler) ListTasks(ctx context.Context, req *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
	s := h.trees[req.Tenant]
	size := cmp.Or(req.PageSize, 50)
	if req.ContextID != "" && session.CheckKey(s.key(ctx, req.ContextID)) != nil {
		return &sdk.ListTasksResponse{Tasks: []*sdk.Task{}, PageSize: size}, nil // no session can have this name
	}
	from, err := parseCursor(req.PageToken)
	if err != nil {
		return nil, err
	}
	w := walk{served: s, req: req, size: size, from: from}
	if err := w.all(ctx); err != nil {
		return nil, err
	}
	res := &sdk.ListTasksResponse{Tasks: []*sdk.Task{}, TotalSize: from.Shown + w.total, PageSize: size}
	marks, more := w.marks, w.cut
	if len(marks) > size {
		marks, more = marks[:size], true
	}
	held := 0
	for i, m := range marks {
		f, err := s.find(ctx, m.id, wantsExtension(ctx))
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			if !errors.Is(err, sdk.ErrTaskNotFound) { // otherwise it was deleted meanwhile
				s.logger.Error("cannot read a task; the list omits it", "task", string(m.id), "caller", s.caller(ctx))
			}
			continue
		}
		t := f.snapshot(req.HistoryLength)
		if !req.IncludeArtifacts {
			t.Artifacts = nil
		} else if t.Artifacts == nil {
			t.Artifacts = []*sdk.Artifact{}
		}
		res.Tasks = append(res.Tasks, t)
		data, _ := json.Marshal(t) // everything in it was JSON in the log
		if held += len(data); held > maxPage && i < len(marks)-1 {
			marks, more = marks[:i+1], true
			break
		}
	}
	if more {
		res.NextPageToken = w.bookmark(marks).token()
	}
	return res, nil
}

// maxPage is the size in bytes after which a page gets no further task.
const maxPage = 8 << 20
