//! The event-stream client's HTTP, over the same reqwest client as every other request: one policy for keys, proxies,
//! redirects and TLS.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt};
use launchdarkly_sdk_transport::{ByteStream, HttpTransport, Request, ResponseFuture, TransportError};

/// Sends through a reqwest client, which neither follows redirects nor retries.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    http: reqwest::Client,
}

impl Transport {
    pub(super) fn new(http: reqwest::Client) -> Self {
        Self { http }
    }
}

impl HttpTransport for Transport {
    fn request(&self, request: Request<Option<Bytes>>) -> ResponseFuture {
        let http = self.http.clone();
        Box::pin(Exclusive::new(Box::pin(async move {
            let request = request.map(|body| body.map_or_else(reqwest::Body::default, Into::into));
            let request = reqwest::Request::try_from(request).map_err(TransportError::new)?;
            let mut response = http.execute(request).await.map_err(TransportError::new)?;
            let mut answer = http::Response::builder().status(response.status());
            if let Some(headers) = answer.headers_mut() {
                std::mem::swap(headers, response.headers_mut());
            }
            let body = response.bytes_stream().map(|chunk| chunk.map_err(TransportError::new));
            let body: ByteStream = Box::pin(Exclusive::new(Box::pin(body)));
            answer.body(body).map_err(TransportError::new)
        })))
    }
}

/// Makes something `Sync` that is only `Send`, as the transport's signature demands and reqwest does not offer. The
/// lock is never contended: polling needs `&mut`, and `&mut` reaches through a mutex without locking it.
struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    fn new(inner: T) -> Self {
        Self(Mutex::new(inner))
    }

    fn inner(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Future + Unpin> Future for Exclusive<T> {
    type Output = T::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(self.get_mut().inner()).poll(cx)
    }
}

impl<T: Stream + Unpin> Stream for Exclusive<T> {
    type Item = T::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(self.get_mut().inner()).poll_next(cx)
    }
}
