//! `spectop attach`: the dashboard on a server that runs elsewhere.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::bench_host::BenchHost;
use super::screen_loop::{self, Attachment, Pending, Remote};
use super::{ClientArgs, Exit, Failure, ScreenArgs};
use crate::gpu::{DEFAULT_INTERVAL, Sampler};
use crate::protocol::mode::{ModeChange, ModeRequest};
use crate::source::{self, CHANNEL_CAPACITY, ChatDelta, ChatMessage, ChatRequest, Client};
use crate::ui::app::{Answer, Prompt};

/// Opens the dashboard on the server, whether it answers yet or not.
pub fn run(client: &ClientArgs, screen: &ScreenArgs) -> Result<(), Failure> {
    let client = Client::new(&client.url, client.api_key.as_deref())?;
    screen_loop::check(screen)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start: {error}")))?;
    let sampler = sampler()?;
    let result = runtime.block_on(async {
        let (attachment, _attached) = attach(&client, &sampler);
        screen_loop::run_attached(attachment, screen).await
    });
    // Connections that hang must not keep the user waiting.
    runtime.shutdown_background();
    result
}

/// Reads this machine's sensors from now on.
pub fn sampler() -> Result<Arc<Sampler>, Failure> {
    let sampler = Sampler::spawn(DEFAULT_INTERVAL);
    sampler.map(Arc::new).map_err(|error| Failure::new(Exit::Failed, format!("cannot read the sensors: {error}")))
}

/// Attaches to a server in the background, until the guard is dropped.
pub fn attach(client: &Client, sampler: &Arc<Sampler>) -> (Attachment, DropGuard) {
    let (send, updates) = mpsc::channel(CHANNEL_CAPACITY);
    let cancel = CancellationToken::new();
    tokio::spawn(source::attach(client.clone(), send, cancel.clone()));
    let runs = Arc::new(BenchHost::new(client.clone(), Arc::clone(sampler)));
    let sampler = Arc::clone(sampler);
    let attachment = Attachment {
        url: client.url().to_owned(),
        remote: Arc::new(Server { client: client.clone() }),
        updates,
        runs: Some(runs),
        sensors: Box::new(move || sampler.latest()),
        demo: false,
    };
    (attachment, cancel.drop_guard())
}

/// The server behind a client.
struct Server {
    client: Client,
}

impl Remote for Server {
    fn set_mode(&self, request: ModeRequest) -> Pending<Result<ModeChange, String>> {
        let client = self.client.clone();
        Box::pin(async move { client.set_mode(request).await.map_err(|error| error.to_string()) })
    }

    fn generate(&self, prompt: Prompt, text: mpsc::Sender<Answer>) -> Pending<Result<(), String>> {
        let client = self.client.clone();
        Box::pin(async move {
            let request = ChatRequest {
                messages: vec![ChatMessage::user(prompt.text)],
                model: prompt.model,
                max_tokens: Some(prompt.max_tokens),
                temperature: Some(prompt.temperature),
                mode: prompt.mode,
                ..ChatRequest::default()
            };
            let tag = prompt.tag;
            let mut answer = client.chat(&request).await.map_err(|error| error.to_string())?;
            while let Some(delta) = answer.next().await {
                match delta.map_err(|error| error.to_string())? {
                    ChatDelta::Text { text: piece, .. } => {
                        // Nobody reads any more only when the screen is about to close.
                        let id = answer.id().map(str::to_owned);
                        let _ = text.send(Answer { tag, id, text: piece }).await;
                    }
                    ChatDelta::End(_) => break,
                }
            }
            Ok(())
        })
    }
}
