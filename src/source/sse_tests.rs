//! Conformance table of the event stream, against a transport that hands out exactly the chunks it is told to.

use super::*;
use futures_util::stream;

#[derive(Clone)]
struct Scripted {
    status: u16,
    kind: &'static str,
    chunks: Vec<Vec<u8>>,
}

impl HttpTransport for Scripted {
    fn request(&self, _request: Request<Option<Bytes>>) -> ResponseFuture {
        let Self { status, kind, chunks } = self.clone();
        Box::pin(async move {
            let chunks: Vec<Result<Bytes, TransportError>> = chunks.into_iter().map(|c| Ok(Bytes::from(c))).collect();
            let body: ByteStream = Box::pin(stream::iter(chunks));
            http::Response::builder()
                .status(status)
                .header("content-type", kind)
                .body(body)
                .map_err(TransportError::new)
        })
    }
}

type Seen = (Vec<(String, String)>, Option<SourceError>);

async fn read_chunks(chunks: Vec<Vec<u8>>) -> Seen {
    let transport = Scripted { status: 200, kind: "text/event-stream; charset=utf-8", chunks };
    let mut stream = EventStream::open(transport, "http://h/", None).await.unwrap();
    let mut seen = Vec::new();
    while let Some(frame) = stream.next().await {
        match frame {
            Ok(Frame::Event(message)) => seen.push((message.name, message.data)),
            Ok(Frame::Comment) => seen.push((":".into(), String::new())),
            Err(error) => {
                assert!(stream.next().await.is_none(), "an error ends the stream");
                return (seen, Some(error));
            }
        }
    }
    (seen, None)
}

async fn read(text: &[u8]) -> Seen {
    read_chunks(vec![text.to_vec()]).await
}

fn events(list: &[(&str, &str)]) -> Seen {
    (list.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect(), None)
}

#[tokio::test]
async fn forms_of_the_wire_format() {
    let table: &[(&str, &[(&str, &str)])] = &[
        ("event: a\ndata: 1\n\n", &[("a", "1")]),
        ("event: a\r\ndata: 1\r\n\r\n", &[("a", "1")]),
        ("event: a\rdata: 1\r\r", &[("a", "1")]),
        ("event:a\ndata:1\n\n", &[("a", "1")]),
        ("data:  two spaces\n\n", &[("message", " two spaces")]),
        ("data: x: y\n\n", &[("message", "x: y")]),
        ("data: 1\ndata: 2\ndata\ndata: 3\n\n", &[("message", "1\n2\n\n3")]),
        ("data:\n\n", &[("message", "")]),
        (": keep-alive\n\ndata: 1\n\n", &[(":", ""), ("message", "1")]),
        ("\u{feff}data: 1\n\n", &[("message", "1")]),
        ("id: 7\nretry: 10\ndata: 1\n\n", &[("message", "1")]),
        ("event: only-a-name\n\ndata: 1\n\n", &[("message", "1")]),
        ("data: 1\nunknown: 2\n\n", &[("message", "1")]),
        ("data: 1\n\n\n\ndata: 2\n\n", &[("message", "1"), ("message", "2")]),
        // An event is complete with its blank line and not before: half an event may be half a JSON object.
        ("data: 1\n\ndata: 2\n", &[("message", "1")]),
        ("", &[]),
    ];
    for (text, expected) in table {
        assert_eq!(read(text.as_bytes()).await, events(expected), "{text:?}");
    }
}

#[tokio::test]
async fn any_split_of_the_bytes_gives_the_same_events() {
    let text = "\u{feff}event: token\r\ndata: {\"text\":\"😀 你好 é\"}\r\n\r\n: c\r\n\r\ndata: 1\r\ndata: 二\r\n\r\n"
        .as_bytes();
    let whole = read(text).await;
    assert_eq!(whole, events(&[("token", "{\"text\":\"😀 你好 é\"}"), (":", ""), ("message", "1\n二")]));
    for at in 1..text.len() {
        let chunks = vec![text[..at].to_vec(), text[at..].to_vec()];
        assert_eq!(read_chunks(chunks).await, whole, "split at {at}");
    }
    let singles = text.iter().map(|&byte| vec![byte]).collect();
    assert_eq!(read_chunks(singles).await, whole);
}

#[tokio::test]
async fn invalid_utf8_is_an_error_after_the_events_before_it() {
    let (seen, error) = read(b"data: 1\n\ndata: \xff\xfe\n\ndata: 2\n\n").await;
    assert_eq!(seen, events(&[("message", "1")]).0);
    assert!(matches!(error, Some(SourceError::Malformed(_))), "{error:?}");
}

#[tokio::test]
async fn ends_in_the_middle_of_a_line_are_told() {
    let (seen, error) = read(b"data: 1\n\ndata: {\"half").await;
    assert_eq!(seen.len(), 1);
    assert!(error.unwrap().to_string().contains("in the middle of an event"));
}

#[tokio::test]
async fn size_is_bounded_per_event_not_per_stream() {
    let mib = vec![b'x'; 1 << 20];
    let mut endless = vec![b"data: ".to_vec()];
    endless.extend(std::iter::repeat_n(mib.clone(), 12));
    let (_, error) = read_chunks(endless).await;
    assert!(error.unwrap().to_string().contains("longer than 8 MiB"));

    let mut many_lines = Vec::new();
    for _ in 0..12 {
        many_lines.extend([b"data: ".to_vec(), mib.clone(), b"\r\n".to_vec()]);
    }
    assert!(read_chunks(many_lines).await.1.is_some());

    let mut many_events = Vec::new();
    for _ in 0..12 {
        many_events.extend([b"data: ".to_vec(), mib.clone(), b"\r\n\r\n".to_vec()]);
    }
    let (seen, error) = read_chunks(many_events).await;
    assert_eq!((seen.len(), error), (12, None));
    assert_eq!(seen[11].1.len(), 1 << 20);
}

#[tokio::test]
async fn error_answers_carry_the_servers_message() {
    let open = |status, kind, body: &str| {
        let transport = Scripted { status, kind, chunks: vec![body.as_bytes().to_vec()] };
        async move { EventStream::open(transport, "http://h/", None).await.err().map(|error| error.to_string()) }
    };
    let text = open(503, "application/json", r#"{"error":{"message":"still loading"}}"#).await.unwrap();
    assert_eq!(text, "the server answered 503: still loading");
    assert!(open(401, "application/json", "{}").await.unwrap().contains("--api-key"));
    assert!(open(301, "text/html", "").await.unwrap().contains("redirects"));
    assert!(open(200, "application/json", "{}").await.unwrap().contains("no event stream"));
    assert_eq!(open(200, "text/event-stream", "").await, None);
}

#[tokio::test]
async fn silence_is_noticed_and_slow_reading_is_not_silence() {
    #[derive(Clone)]
    struct Stalls;
    impl HttpTransport for Stalls {
        fn request(&self, _request: Request<Option<Bytes>>) -> ResponseFuture {
            Box::pin(async {
                let first = stream::iter([Ok(Bytes::from("data: 1\n\n"))]);
                let body: ByteStream = Box::pin(first.chain(stream::pending()));
                let answer = http::Response::builder().header("content-type", "text/event-stream");
                answer.body(body).map_err(TransportError::new)
            })
        }
    }
    let idle = Duration::from_millis(60);
    let mut stream = EventStream::open(Stalls, "http://h/", None).await.unwrap();
    tokio::time::sleep(idle * 3).await;
    assert!(matches!(stream.next_within(idle).await, Some(Ok(Frame::Event(_)))));
    let begin = Instant::now();
    let error = stream.next_within(idle).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("no data for 0.1 s"), "{error}");
    assert!(begin.elapsed() >= idle);
    assert!(stream.next().await.is_none());
}
