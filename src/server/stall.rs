//! A stream whose writes fail when the other side has taken nothing for too long: a reader that hangs, or a machine
//! that is gone without a goodbye, must not hold its place until the system notices.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// See the module.
pub(super) struct WriteStall<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteStall<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, timer: None }
    }

    fn watch<T>(&mut self, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.timer = None;
            return polled;
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        if timer.as_mut().poll(cx).is_ready() {
            // Stay expired: every later write must fail as well.
            timer.as_mut().reset(Instant::now());
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteStall<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteStall<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_reader_that_stalls_ends_the_write() {
        let (near, _far) = duplex(16);
        let mut stream = WriteStall::new(near, Duration::from_millis(30));
        let error = stream.write_all(&[0; 64]).await.err().map(|e| e.kind());
        assert_eq!(error, Some(io::ErrorKind::TimedOut));
    }

    #[tokio::test]
    async fn a_slow_reader_does_not() {
        let (near, mut far) = duplex(16);
        let mut stream = WriteStall::new(near, Duration::from_millis(300));
        let reader = tokio::spawn(async move {
            let mut seen = 0;
            let mut buf = [0; 8];
            while let Ok(n @ 1..) = far.read(&mut buf).await {
                seen += n;
                sleep(Duration::from_millis(20)).await;
            }
            seen
        });
        assert!(stream.write_all(&[0; 256]).await.is_ok());
        drop(stream);
        assert_eq!(reader.await.ok(), Some(256));
    }
}
