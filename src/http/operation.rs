//! What can be asked: every operation with its method, path and scope, in one table. Routes, rights and the OpenAPI document come from it.

use axum::http::Method;
use axum::routing::MethodFilter;

use super::token::Scope;

/// One thing that can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Enqueue,
    EnqueueBatch,
    Inspect,
    List,
    Cancel,
    Reschedule,
    Hold,
    Release,
    Paid,
    Close,
    Stats,
    Forecast,
    ListDead,
    Revive,
    Drop,
    Events,
    Pause,
    Resume,
    Explain,
    Audit,
    BeginBulk,
    ListBulk,
    InspectBulk,
    StopBulk,
    Workers,
    Drain,
    ResumeWorker,
    Jobs,
    RunJob,
    Wheels,
    Document,
}

/// The bodies that an operation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// None; what is sent is not read.
    Nothing,
    /// A JSON object.
    Object,
    /// A JSON object, or nothing.
    Perhaps,
    /// A JSON array or NDJSON.
    Batch,
}

impl Operation {
    pub const ALL: [Self; 31] = [
        Self::Enqueue,
        Self::EnqueueBatch,
        Self::Inspect,
        Self::List,
        Self::Cancel,
        Self::Reschedule,
        Self::Hold,
        Self::Release,
        Self::Paid,
        Self::Close,
        Self::Stats,
        Self::Forecast,
        Self::ListDead,
        Self::Revive,
        Self::Drop,
        Self::Events,
        Self::Pause,
        Self::Resume,
        Self::Explain,
        Self::Audit,
        Self::BeginBulk,
        Self::ListBulk,
        Self::InspectBulk,
        Self::StopBulk,
        Self::Workers,
        Self::Drain,
        Self::ResumeWorker,
        Self::Jobs,
        Self::RunJob,
        Self::Wheels,
        Self::Document,
    ];

    /// The stable word: operationId, metric label, span.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::EnqueueBatch => "enqueue_batch",
            Self::Inspect => "inspect",
            Self::List => "list",
            Self::Cancel => "cancel",
            Self::Reschedule => "reschedule",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Paid => "paid",
            Self::Close => "close",
            Self::Stats => "stats",
            Self::Forecast => "forecast",
            Self::ListDead => "list_dead",
            Self::Revive => "revive",
            Self::Drop => "drop",
            Self::Events => "events",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Explain => "explain",
            Self::Audit => "audit",
            Self::BeginBulk => "begin_bulk",
            Self::ListBulk => "list_bulk",
            Self::InspectBulk => "inspect_bulk",
            Self::StopBulk => "stop_bulk",
            Self::Workers => "workers",
            Self::Drain => "drain",
            Self::ResumeWorker => "resume_worker",
            Self::Jobs => "jobs",
            Self::RunJob => "run_job",
            Self::Wheels => "wheels",
            Self::Document => "openapi",
        }
    }

    pub fn path(self) -> &'static str {
        match self {
            Self::Enqueue | Self::Inspect | Self::Cancel | Self::Reschedule => {
                "/v1/wheels/{wheel}/deadlines/{id}"
            }
            Self::EnqueueBatch | Self::List => "/v1/wheels/{wheel}/deadlines",
            Self::Hold => "/v1/wheels/{wheel}/deadlines/{id}/hold",
            Self::Release => "/v1/wheels/{wheel}/deadlines/{id}/release",
            Self::Paid => "/v1/wheels/{wheel}/deadlines/{id}/paid",
            Self::Close => "/v1/wheels/{wheel}/deadlines/{id}/close",
            Self::Stats => "/v1/wheels/{wheel}/stats",
            Self::Forecast => "/v1/wheels/{wheel}/forecast",
            Self::ListDead => "/v1/wheels/{wheel}/dead",
            Self::Revive => "/v1/wheels/{wheel}/dead/revive",
            Self::Drop => "/v1/wheels/{wheel}/dead/drop",
            Self::Events => "/v1/wheels/{wheel}/events",
            Self::Pause => "/v1/wheels/{wheel}/pause",
            Self::Resume => "/v1/wheels/{wheel}/resume",
            Self::Explain => "/v1/wheels/{wheel}/deadlines/{id}/explain",
            Self::Audit => "/v1/wheels/{wheel}/audit",
            Self::BeginBulk | Self::ListBulk => "/v1/wheels/{wheel}/bulk",
            Self::InspectBulk | Self::StopBulk => "/v1/wheels/{wheel}/bulk/{bulk}",
            Self::Workers => "/v1/wheels/{wheel}/workers",
            Self::Drain => "/v1/wheels/{wheel}/workers/{worker}/drain",
            Self::ResumeWorker => "/v1/wheels/{wheel}/workers/{worker}/resume",
            Self::Jobs => "/v1/wheels/{wheel}/jobs",
            Self::RunJob => "/v1/wheels/{wheel}/jobs/{job}/run",
            Self::Wheels => "/v1/wheels",
            Self::Document => "/openapi.json",
        }
    }

    pub fn method(self) -> Method {
        match self {
            Self::Enqueue => Method::PUT,
            Self::Cancel | Self::StopBulk => Method::DELETE,
            Self::Reschedule => Method::PATCH,
            Self::EnqueueBatch | Self::Hold | Self::Release | Self::Paid | Self::Close => Method::POST,
            Self::Revive | Self::Drop | Self::Pause | Self::Resume => Method::POST,
            Self::Inspect | Self::List | Self::Stats | Self::Forecast | Self::ListDead => Method::GET,
            Self::BeginBulk | Self::Drain | Self::ResumeWorker | Self::RunJob => Method::POST,
            Self::Events | Self::Wheels | Self::Document => Method::GET,
            Self::Explain | Self::Audit | Self::ListBulk | Self::InspectBulk => Method::GET,
            Self::Workers | Self::Jobs => Method::GET,
        }
    }

    pub fn filter(self) -> MethodFilter {
        MethodFilter::try_from(self.method()).unwrap_or(MethodFilter::GET)
    }

    /// The right that it needs; `None` where anybody may ask.
    pub fn scope(self) -> Option<Scope> {
        match self {
            Self::Document => None,
            Self::Inspect | Self::List | Self::Stats | Self::Forecast | Self::ListDead => Some(Scope::Read),
            Self::Events | Self::Wheels => Some(Scope::Read),
            Self::Explain | Self::Audit | Self::ListBulk | Self::InspectBulk => Some(Scope::Read),
            Self::Workers | Self::Jobs => Some(Scope::Read),
            Self::Enqueue | Self::EnqueueBatch | Self::Cancel | Self::Reschedule => Some(Scope::Enqueue),
            Self::Hold | Self::Release | Self::Paid => Some(Scope::Enqueue),
            Self::Close | Self::Revive | Self::Drop | Self::Pause | Self::Resume => Some(Scope::Operate),
            Self::BeginBulk | Self::StopBulk => Some(Scope::Operate),
            Self::Drain | Self::ResumeWorker | Self::RunJob => Some(Scope::Operate),
        }
    }

    pub fn takes(self) -> Takes {
        match self {
            Self::Enqueue | Self::Reschedule | Self::Hold | Self::Close => Takes::Object,
            Self::Revive | Self::Drop | Self::Pause | Self::BeginBulk | Self::Drain => Takes::Object,
            Self::Paid | Self::Resume | Self::Release => Takes::Perhaps,
            Self::ResumeWorker | Self::RunJob => Takes::Perhaps,
            Self::EnqueueBatch => Takes::Batch,
            _ => Takes::Nothing,
        }
    }

    /// The query parameters that it knows.
    pub fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::List => &["state", "from", "to", "attempts", "reason", "payload", "limit", "cursor"],
            Self::ListDead => &["limit", "cursor"],
            Self::Forecast => &["step", "count"],
            Self::Audit => &["id", "act", "limit", "cursor"],
            Self::Jobs => &["limit"],
            Self::Events => &["since", "type"],
            Self::EnqueueBatch => &["on_conflict"],
            _ => &[],
        }
    }

    /// Whether it changes something, so that a lost answer leaves its outcome open.
    pub fn writes(self) -> bool {
        self.scope().is_some_and(|scope| scope != Scope::Read)
    }

    /// Whether it could be left half done. What shops ask for all day could not: a single enqueue is a part of the combiner's next call,
    /// and a cancel one script; either it is sent or it is not.
    pub fn has_steps(self) -> bool {
        self.writes() && !matches!(self, Self::Enqueue | Self::Cancel)
    }
}
